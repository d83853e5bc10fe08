"""What holds for every selector, whatever it remembers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding._typing import Counts
from fielding.errors import OptionError
from fielding.federation.selection import SELECTORS, Candidates, Selection, selector_named
from fielding.federation.selection.oort import Oort
from fielding.federation.selection.pyramidfl import PyramidFL
from tests.federation.selection.rounds import Federation, candidates_of

N_CLIENTS = 24
NAMES = sorted(SELECTORS)
ROUND = 12


def experienced(name: str, n_rounds: int = 6, seed: int = 0) -> Selection:
    """Return a selection that has seen reports of some clients and some rounds of two clusters."""
    rng = np.random.default_rng(seed)
    selection = Selection(selector_named(name), N_CLIENTS)
    heard = np.arange(0, N_CLIENTS, 2)
    selection.note_reports(heard, rng.dirichlet(np.ones(3), heard.size))
    federation = Federation(
        rng.uniform(0.1, 3.0, N_CLIENTS), rng.uniform(1.0, 30.0, N_CLIENTS), n_clusters=2, n_wanted=2
    )
    federation.play(selection, range(n_rounds), overcommit=1)
    return selection


def choose(selection: Selection, candidates: Candidates, n_wanted: int) -> Counts:
    return selection.choose(candidates, n_wanted, cluster=1, round_index=ROUND, members=np.arange(N_CLIENTS))


@pytest.mark.parametrize("name", NAMES)
@given(st.sets(st.integers(0, N_CLIENTS - 1)), st.integers(-1, 30), st.integers(0, 8), st.integers(0, 99))
@settings(max_examples=30)
def test_different_candidates_come_back_rising_as_many_as_wanted(
    name: str, clients: set[int], n_wanted: int, n_rounds: int, seed: int
) -> None:
    candidates = candidates_of(np.array(sorted(clients), dtype=np.int64), ROUND, seed)

    chosen = choose(experienced(name, n_rounds, seed), candidates, n_wanted)

    assert set(chosen.tolist()) <= clients
    assert chosen.size == min(max(0, n_wanted), len(clients))
    assert (np.diff(chosen) > 0).all()
    assert chosen.dtype == np.int64


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_candidates_does_not_matter(name: str) -> None:
    selection, rng = experienced(name), np.random.default_rng(5)
    for turn in range(20):
        candidates = candidates_of(np.arange(N_CLIENTS), turn)
        order = rng.permutation(N_CLIENTS)
        shuffled = Candidates(clients=candidates.clients[order], draws=candidates.draws[order])

        assert choose(selection, shuffled, 5).tolist() == choose(selection, candidates, 5).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_equal_draws_are_no_trouble(name: str) -> None:
    candidates = Candidates(clients=np.arange(N_CLIENTS), draws=np.full(N_CLIENTS, 7, dtype=np.uint64))

    chosen = choose(experienced(name), candidates, 5)

    assert len(set(chosen.tolist())) == 5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("draw", [0, 2**64 - 1])
def test_the_ends_of_the_range_of_draws_are_no_trouble(name: str, draw: int) -> None:
    draws = candidates_of(np.arange(N_CLIENTS), 0).draws
    draws[[3, 4]] = draw

    assert choose(experienced(name), Candidates(clients=np.arange(N_CLIENTS), draws=draws), 5).size == 5


@pytest.mark.parametrize("name", NAMES)
def test_inputs_stay_as_they_were(name: str) -> None:
    selection, candidates, members = experienced(name), candidates_of(np.arange(9), 1), np.arange(N_CLIENTS)
    heard, mixing = np.eye(3)[[0, 1]], np.array([[0.5, 0.5]])
    before = [candidates.clients.copy(), candidates.draws.copy(), members.copy(), heard.copy(), mixing.copy()]

    chosen = selection.choose(candidates, 4, cluster=0, round_index=ROUND, members=members)
    chosen[:] = 0
    selection.note_reports(np.array([1, 2]), heard)
    selection.inherit(mixing)

    after = [candidates.clients, candidates.draws, members, heard, mixing]
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_choice_depends_on_the_draws(name: str) -> None:
    """Over rounds more than one set of clients is chosen: nothing but the draws differs."""
    selection = experienced(name)

    sets = {tuple(choose(selection, candidates_of(np.arange(N_CLIENTS), turn), 4).tolist()) for turn in range(30)}

    assert len(sets) > 5


@pytest.mark.parametrize("name", NAMES)
def test_clusters_may_come_and_go(name: str) -> None:
    selection = experienced(name)

    selection.inherit(np.full((5, 2), 0.5))
    selection.inherit(np.eye(7)[:1])

    for cluster in (0, 3, 11):
        chosen = selection.choose(candidates_of(np.arange(9), 1), 4, cluster=cluster, round_index=ROUND)
        assert chosen.size == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_listed_and_its_default_changes_nothing(name: str) -> None:
    assert selector_named(name, SELECTORS.options(name)) == selector_named(name)


def test_a_selector_that_builds_on_another_takes_its_options_too() -> None:
    assert selector_named("pyramidfl", {"beta": 0.2, "clip": 0.9}) == PyramidFL(beta=0.2, oort=Oort(clip=0.9))
    assert SELECTORS.options("pyramidfl").keys() > SELECTORS.options("oort").keys()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ort", {}, "did you mean 'oort'"),
        ("uniform", {"pool": 2.0}, "selection 'uniform' has no options; leave it out"),
        ("oort", {"clips": 0.9}, "did you mean 'clip'"),
        ("oort", {"beta": 0.5}, "option of selection 'oort'"),
        ("pyramidfl", {"oort": {}}, "option of selection 'pyramidfl'"),
        ("nearest", {"pool": 0.5}, "pool is 0.5"),
        ("nearest", {"pool": "wide"}, "pool is 'wide'"),
    ],
)
def test_wrong_names_and_options_are_refused(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        selector_named(name, options)
