import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.errors import CheckpointError, InputError, OptionError
from fielding.federation.selection import SELECTORS, Feedback, Selection, Uniform, selector_named
from fielding.federation.selection.nearest import Nearest
from tests.federation.selection.rounds import Federation, candidates_of, feedback_of

NAMES = sorted(SELECTORS)


def some_federation(n_clients: int, n_clusters: int, seed: int) -> Federation:
    rng = np.random.default_rng(seed)
    return Federation(
        rng.uniform(0.1, 3.0, n_clients), rng.uniform(1.0, 30.0, n_clients), n_clusters=n_clusters, n_wanted=3
    )


def told_selection(name: str, n_clients: int, seed: int) -> Selection:
    selection = Selection(selector_named(name), n_clients)
    rng = np.random.default_rng(seed)
    selection.note_reports(
        np.arange(n_clients), rng.dirichlet(np.ones(4), n_clients), n_samples=rng.integers(1, 99, n_clients)
    )
    return selection


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 25), st.integers(0, 999))
@settings(max_examples=12)
def test_whoever_resumes_at_any_round_chooses_the_same(name: str, n_clients: int, k: int, stop: int, seed: int) -> None:
    federation = some_federation(n_clients, k, seed)
    whole, resumed = told_selection(name, n_clients, seed), Selection(selector_named(name), n_clients)
    federation.play(whole, range(stop), overcommit=1)

    resumed.restore({one: rows.copy() for one, rows in whole.arrays().items()})

    rest = range(stop, stop + 10)
    assert federation.play(resumed, rest, overcommit=1) == federation.play(whole, rest, overcommit=1)
    for one, rows in whole.arrays().items():
        assert rows.tobytes() == resumed.arrays()[one].tobytes()


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 20), st.integers(1, 10), st.integers(1, 4), st.integers(0, 25), st.integers(0, 999))
@settings(max_examples=12)
def test_whoever_grew_chooses_like_one_that_was_made_for_all(
    name: str, n_clients: int, n_new: int, k: int, stop: int, seed: int
) -> None:
    everyone = some_federation(n_clients + n_new, k, seed)
    first = Federation(everyone.loss[:n_clients], everyone.seconds[:n_clients], n_clusters=k, n_wanted=3)
    grown, whole = (Selection(selector_named(name), size) for size in (n_clients, n_clients + n_new))
    for selection in (grown, whole):
        tell(selection, range(n_clients), seed)
    early = [first.play(selection, range(stop), overcommit=1) for selection in (grown, whole)]

    grown.grow(n_clients + n_new)

    rows = whole.arrays()
    assert {one: found.tobytes() for one, found in grown.arrays().items()} == {
        one: wanted.tobytes() for one, wanted in rows.items()
    }
    for selection in (grown, whole):
        tell(selection, range(n_clients, n_clients + n_new), seed)
    late = [everyone.play(selection, range(stop, stop + 10), overcommit=1) for selection in (grown, whole)]
    assert early[0] == early[1]
    assert late[0] == late[1]


def tell(selection: Selection, clients: range, seed: int) -> None:
    """Let some clients report."""
    rng = np.random.default_rng(seed)
    rows, sizes = rng.dirichlet(np.ones(4), len(clients)), rng.integers(1, 99, len(clients))
    selection.note_reports(np.array(clients, dtype=np.int64), rows, n_samples=sizes)


@pytest.mark.parametrize("n_clients", [3, -1, 4.5, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_selection_never_forgets_a_client(name: str, n_clients: object) -> None:
    selection = told_selection(name, 4, 0)

    with pytest.raises(OptionError, match=f"n_clients is {n_clients!r}; give a whole number of at least 4"):
        selection.grow(n_clients)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["oort", "pyramidfl"])
def test_a_checkpoint_between_planning_and_feedback_loses_nothing(name: str) -> None:
    federation = some_federation(20, 1, 4)
    whole, resumed = told_selection(name, 20, 4), Selection(selector_named(name), 20)
    federation.play(whole, range(8))
    whole.steps(np.arange(20), n_steps=4)

    resumed.restore(whole.arrays())

    for selection in (whole, resumed):
        selection.feedback(feedback_of([1, 2, 3], seconds=[50.0, 60.0, 70.0], round_index=8))
    assert federation.play(resumed, range(9, 20)) == federation.play(whole, range(9, 20))


@pytest.mark.parametrize("name", NAMES)
def test_choosing_alone_changes_nothing(name: str) -> None:
    selection = told_selection(name, 20, 1)
    some_federation(20, 2, 1).play(selection, range(6))
    before = selection.arrays()

    first, again = (
        selection.choose(candidates_of(np.arange(20), 9), 5, cluster=1, round_index=9).tolist() for _ in range(2)
    )

    assert first == again
    assert all(before[one].tobytes() == rows.tobytes() for one, rows in selection.arrays().items())


@given(st.integers(0, 30), st.integers(-1, 35), st.integers(0, 999))
def test_uniform_choices_are_those_of_the_selector_and_leave_no_trace(n_clients: int, n_wanted: int, seed: int) -> None:
    selection, candidates = Selection(Uniform(), 30), candidates_of(np.arange(n_clients), 0, seed)
    selection.feedback(feedback_of([0, 1]))
    selection.note_reports(np.array([0]), np.ones((1, 2)))

    chosen = selection.choose(candidates, n_wanted, cluster=3, round_index=5)

    assert chosen.tolist() == Uniform().select(candidates, n_wanted).tolist()
    assert selection.arrays() == {}
    assert selection.steps(chosen, n_steps=3) is None
    assert selection.upload_shares(chosen) is None


def test_only_who_needs_reports_asks_for_them() -> None:
    asks = {name: Selection(selector_named(name), 3).needs_reports for name in NAMES}

    assert {name for name, needs in asks.items() if needs} == {"nearest"}


def test_reports_of_another_width_are_refused() -> None:
    selection = Selection(Nearest(), 4)
    selection.note_reports(np.array([0]), np.ones((1, 3)))

    with pytest.raises(InputError, match=r"\(1, 2\), not \(1, 3\)"):
        selection.note_reports(np.array([1]), np.ones((1, 2)))


def test_a_checkpoint_of_another_federation_is_refused() -> None:
    selection = Selection(Nearest(), 4)
    selection.note_reports(np.array([0]), np.ones((1, 3)))

    with pytest.raises(CheckpointError, match="4 clients, not 5"):
        Selection(Nearest(), 5).restore(selection.arrays())


def test_restoring_an_empty_checkpoint_forgets_what_was_heard() -> None:
    selection = Selection(Nearest(), 4)
    empty = selection.arrays()
    selection.note_reports(np.array([0]), np.ones((1, 3)))

    selection.restore(empty)

    assert selection.arrays() == {}
    selection.note_reports(np.array([1]), np.ones((1, 3)))
    assert selection.arrays()["has_reported"].tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_does_not_change_with_what_comes_after(name: str) -> None:
    selection = told_selection(name, 9, 2)
    federation = some_federation(9, 2, 2)
    federation.play(selection, range(3))
    arrays = selection.arrays()
    before = {one: rows.tobytes() for one, rows in arrays.items()}

    federation.play(selection, range(3, 6))
    selection.note_reports(np.array([0]), np.full((1, 4), 0.25))

    assert {one: rows.tobytes() for one, rows in arrays.items()} == before


@pytest.mark.parametrize("n_clients", [-1, 2.5, True, "9"])
def test_a_number_of_clients_that_is_none_is_refused(n_clients: object) -> None:
    with pytest.raises(OptionError, match="n_clients"):
        Selection(Uniform(), n_clients)  # type: ignore[arg-type]


def test_feedback_of_unequal_lengths_is_refused() -> None:
    plain = feedback_of([0, 1])
    fields = {name: getattr(plain, name) for name in Feedback.__dataclass_fields__}

    with pytest.raises(InputError, match="there are 2 clients"):
        Feedback(**{**fields, "seconds": np.ones(3)})
    with pytest.raises(InputError, match="there are 0 stragglers"):
        Feedback(**{**fields, "straggler_seconds": np.ones(1)})
