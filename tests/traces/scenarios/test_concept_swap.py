from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError, OptionError
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.concept_swap import ConceptSwap, exchange_labels, shared_meanings
from fielding.traces.schedule import Schedule
from tests.traces.scenarios.pools import concepts_of, image_pool, request_for

POOL = image_pool()


def meaning_of(schedule: Schedule, client: int, interval: int) -> list[int]:
    """Return the label that a client sees for each true one in an interval; -1 where it has no sample."""
    rows = (schedule.client == client) & (schedule.interval == interval)
    meaning = np.full(6, -1)
    meaning[POOL.y[schedule.sample[rows]]] = schedule.y[rows]
    return meaning.tolist()


def test_everyone_begins_with_the_true_labels() -> None:
    schedule = ConceptSwap(share=1.0).deal(POOL, request_for(n_first=3), seed=1)
    is_first = schedule.interval < 3

    assert (schedule.y == POOL.y[schedule.sample])[is_first].all()
    assert not concepts_of(schedule)[:3].any()
    assert (schedule.y != POOL.y[schedule.sample])[~is_first].any()


def test_whoever_drifts_swaps_two_labels_and_swaps_add_up() -> None:
    schedule = ConceptSwap(share=1.0).deal(POOL, request_for(8, 5, n_first=1, samples=200), seed=1)
    for client in range(8):
        history = [meaning_of(schedule, client, interval) for interval in range(5)]
        assert history[0] == [0, 1, 2, 3, 4, 5]
        for before, after in pairwise(history):
            changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
            assert len(changed) == 2
            assert changed[0] == changed[1][::-1]


def test_clients_pick_labels_of_their_own() -> None:
    schedule = ConceptSwap(share=1.0).deal(POOL, request_for(40, 2, n_first=1, samples=200), seed=1)

    assert len({tuple(meaning_of(schedule, client, 1)) for client in range(40)}) > 8


def test_several_pairs_may_be_swapped_at_a_time() -> None:
    schedule = ConceptSwap(share=1.0, swaps=2).deal(POOL, request_for(1, 2, n_first=1, samples=200), seed=1)

    assert sum(seen != true for true, seen in enumerate(meaning_of(schedule, 0, 1))) == 4


@given(seed=st.integers(0, 1000), n_pairs=st.integers(0, 3))
def test_exchange_is_undone_by_itself_and_is_a_permutation(seed: int, n_pairs: int) -> None:
    rng = stream(seed, "exchange")
    meanings = rng.permuted(np.tile(np.arange(7), (5, 1)), axis=1)
    picked = rng.permuted(np.tile(np.arange(7), (5, 1)), axis=1)[:, : 2 * n_pairs]

    once = exchange_labels(meanings, picked)

    assert (np.sort(once, axis=1) == np.arange(7)).all()
    assert ((once != meanings).sum(axis=1) == 2 * n_pairs).all()
    assert (exchange_labels(once, picked) == meanings).all()


def test_equal_meanings_have_equal_concepts() -> None:
    schedule = ConceptSwap().deal(POOL, request_for(60, 4, n_first=1, samples=300), seed=1)
    number_of: dict[tuple[int, ...], int] = {}
    for client in range(60):
        for interval in range(4):
            number = int(concepts_of(schedule)[interval, client])
            assert number_of.setdefault(tuple(meaning_of(schedule, client, interval)), number) == number
    assert len(set(number_of.values())) == len(number_of) > 15


def test_meanings_may_be_shared_so_that_there_are_groups_to_find() -> None:
    schedule = ConceptSwap(concepts=3).deal(POOL, request_for(60, 4, n_first=1, samples=300), seed=1)
    meanings = shared_meanings(POOL, ConceptSwap(concepts=3), seed=1)

    assert meanings.shape == (3, 6)
    assert meanings[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert set(concepts_of(schedule)[0].tolist()) == {0, 1, 2}
    assert (
        schedule.y == meanings[concepts_of(schedule)[schedule.interval, schedule.client], POOL.y[schedule.sample]]
    ).all()


def test_more_shared_meanings_than_there_are_swaps_are_refused() -> None:
    assert shared_meanings(image_pool(9, 3), ConceptSwap(concepts=4), seed=1).shape == (4, 3)
    with pytest.raises(InputError, match="concepts is 5, but swaps of 3 labels give fewer"):
        shared_meanings(image_pool(9, 3), ConceptSwap(concepts=5), seed=1)


def test_same_samples_come_again_with_other_labels() -> None:
    schedule = ConceptSwap(share=1.0, same_samples=True).deal(POOL, request_for(3, 4, n_first=1, samples=50), seed=1)
    samples, seen = schedule.sample.reshape(3, 4, 50), schedule.y.reshape(3, 4, 50)

    assert (samples == samples[:, :1]).all()
    assert (seen[:, 1:] != seen[:, :-1]).any(axis=2).all()


def test_labels_without_samples_are_never_seen() -> None:
    pool = Pool(x=np.eye(6), y=np.array([0, 2, 2, 4, 4, 4], dtype=np.int32), classes=tuple("abcde"))
    schedule = ConceptSwap(share=1.0, swaps=9).deal(pool, request_for(), seed=1)

    assert set(schedule.y.tolist()) == {0, 2, 4}


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="concepts is -1"):
        ConceptSwap(concepts=-1)
    with pytest.raises(OptionError, match="swaps is 0"):
        ConceptSwap(swaps=0)
    with pytest.raises(OptionError, match="same_samples is 1; give true or false"):
        ConceptSwap(same_samples=1)  # type: ignore[arg-type]
