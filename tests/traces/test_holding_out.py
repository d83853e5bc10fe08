"""Samples of the server's own: nobody else has them, and everybody would lose the same ones."""

from dataclasses import replace

import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sources import Dealt, HeldOut, hold_out

PLAN = WindowPlan(gap=2, window=4)
"""Two intervals make the first window."""


def dealt(*, is_natural: bool = False, n_samples: int = 400, n_intervals: int = 4) -> Dealt:
    """Return samples of two classes, three of a for each of b, dealt to five clients; a scenario knows concepts."""
    rng = np.random.default_rng(3)
    y = (np.arange(n_samples) % 4 == 3).astype(np.int32)
    pool = Pool(x=np.zeros((n_samples, 1), dtype=np.float32), y=y, classes=("a", "b"))
    sample = np.arange(n_samples) if is_natural else rng.integers(0, n_samples, 2 * n_samples)
    columns = (sample % 5, rng.integers(0, n_intervals, sample.size), sample, y[sample], np.zeros(sample.size))
    concepts = None if is_natural else np.zeros((n_intervals, 5), dtype=np.int32)
    schedule = sort_schedule(tuple(range(5)), n_intervals, columns=columns, concepts=concepts)
    return Dealt(pool=pool, schedule=schedule, plan=PLAN, is_natural=is_natural)


def per_class(held: HeldOut) -> list[int]:
    return np.bincount(held.labels, minlength=2).tolist()


def n_training(given: Dealt) -> list[int]:
    """Return how many training samples the pool has of each class."""
    return np.bincount(given.pool.y[~given.pool.is_test()], minlength=2).tolist()


def test_no_client_has_a_sample_of_the_servers_and_all_others_stay() -> None:
    given = dealt()

    rest, held = hold_out(given, 20, seed=1)

    assert per_class(held) == [20, 20 if n_training(given)[1] >= 80 else n_training(given)[1] // 4]
    assert (np.diff(held.samples) > 0).all()
    assert held.labels.tolist() == given.pool.y[held.samples].tolist()
    kept = np.flatnonzero(~np.isin(given.schedule.sample, held.samples))
    for name in ("client", "interval", "sample", "y", "look"):
        assert getattr(rest.schedule, name).tolist() == getattr(given.schedule, name)[kept].tolist()
    assert rest.schedule.concepts is given.schedule.concepts
    assert rest.pool is given.pool


def test_nobody_is_tested_on_less_for_it() -> None:
    given = dealt()
    rest, held = hold_out(given, 20, seed=1)
    is_test = given.pool.is_test()

    assert not is_test[held.samples].any()
    assert is_test[rest.schedule.sample].sum() == is_test[given.schedule.sample].sum()


def test_at_most_a_quarter_of_a_class_is_held_out() -> None:
    given = dealt()

    _, held = hold_out(given, 10_000, seed=1)

    assert per_class(held) == [size // 4 for size in n_training(given)]


def test_of_a_natural_trace_only_the_first_window_is_known() -> None:
    given = dealt(is_natural=True)

    rest, held = hold_out(given, 10_000, seed=1)

    when = np.empty(400, dtype=np.int64)
    when[given.schedule.sample] = given.schedule.interval
    assert set(when[held.samples].tolist()) == {0, 1}
    early = np.flatnonzero((when < 2) & ~given.pool.is_test())
    assert per_class(held) == [size // 4 for size in np.bincount(given.pool.y[early]).tolist()]
    assert (rest.schedule.interval >= 2).sum() == (given.schedule.interval >= 2).sum()


def test_the_choice_depends_on_the_seed_and_on_nothing_else() -> None:
    given = dealt()
    first, second, other = (hold_out(given, 20, seed=seed)[1].samples.tolist() for seed in (1, 1, 2))
    fewer = hold_out(given, 5, seed=1)[1].samples.tolist()
    shuffled = replace(given, schedule=hold_out(given, 5, seed=9)[0].schedule)

    assert first == second == hold_out(shuffled, 20, seed=1)[1].samples.tolist(), "not on what clients have"
    assert first != other
    assert set(fewer) < set(first), "who holds more out holds the same ones, and more"


def test_a_class_without_four_samples_keeps_them() -> None:
    given = dealt(n_samples=12)

    _, held = hold_out(given, 5, seed=1)

    assert per_class(held) == [n_training(given)[0] // 4, 0]


@pytest.mark.parametrize(("n_samples", "words"), [(4, "no class has 4 training samples to spare one of; give more")])
def test_too_few_samples_are_told_with_the_key(n_samples: int, words: str) -> None:
    with pytest.raises(OptionError, match=f"^trace.held_out is 5, but {words}") as caught:
        hold_out(dealt(n_samples=n_samples), 5, seed=1)
    assert "\n" not in str(caught.value)


def test_clients_keep_something() -> None:
    given = dealt()
    _, held = hold_out(given, 1, seed=1)
    rows = np.flatnonzero(np.isin(given.schedule.sample, held.samples))
    columns = {name: getattr(given.schedule, name)[rows] for name in ("client", "interval", "sample", "y", "look")}
    robbed = replace(given, schedule=replace(given.schedule, **columns))

    with pytest.raises(OptionError, match=r"^trace\.held_out is 1, which leaves the clients no sample; lower it"):
        hold_out(robbed, 1, seed=1)
