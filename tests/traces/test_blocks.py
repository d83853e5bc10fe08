"""Blocks of time, by which natural traces are split so that nobody is tested on what it has all but seen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.config.keys import TraceSection
from fielding.errors import InputError, OptionError
from fielding.traces.catalog import CATALOG, entry_named
from fielding.traces.intervals import parse_interval, parse_span
from fielding.traces.likeness import measure_copying, measure_likeness
from fielding.traces.pool import Blocks, choose_test
from fielding.traces.sources import deal_samples, hold_out, sort_samples
from fielding.traces.trace import Trace

HOUR = 3600.0
CLASSES = tuple("abcdefgh")


def spells(n_minutes: int = 12_000, *, spell: int = 40, n_clients: int = 3, seed: int = 0) -> Trace:
    """Return clients that do one of eight things for so many minutes, then another at random; a sample a minute."""
    rng = np.random.default_rng(seed)
    y = np.concatenate(
        [np.repeat(rng.integers(0, 8, n_minutes // spell + 1), spell)[:n_minutes] for _ in range(n_clients)]
    )
    return Trace(
        client_ids=tuple(f"c{number}" for number in range(n_clients)),
        client=np.repeat(np.arange(n_clients, dtype=np.int32), n_minutes),
        time=np.tile(np.arange(n_minutes) * 60.0, n_clients) + 1.7e9,
        y=y.astype(np.int32),
        classes=CLASSES,
        x=rng.normal(size=(y.size, 2)) + y[:, np.newaxis],
    )


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=200), st.integers(0, 2**64 - 1))
def test_exactly_one_of_five_blocks_of_a_client_is_for_testing(numbers: list[int], owner: int) -> None:
    fives = np.array(numbers)
    index = (fives[:, np.newaxis] * 5 + np.arange(5)).ravel()

    is_test = choose_test(index.size, Blocks(owner=np.full(index.size, owner, dtype=np.uint64), index=index))

    assert is_test.reshape(-1, 5).sum(axis=1).tolist() == [1] * fives.size


def test_over_all_folds_each_block_is_tested_once() -> None:
    index = np.arange(-7, 40)
    owner = np.full(index.size, 3, dtype=np.uint64)

    tested = [choose_test(index.size, Blocks(owner=owner, index=index, fold=fold)) for fold in range(5)]

    assert np.sum(tested, axis=0).tolist() == [1] * index.size


SEEN = st.tuples(st.sampled_from(["ann", "bob", "cem"]), st.integers(-(10**6), 10**6), st.booleans())


@given(st.lists(SEEN, min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_blocks_stay_whole_and_neither_order_nor_narrowing_changes_them(
    rows: list[tuple[str, int, bool]], seed: int
) -> None:
    names, times, kept = zip(*rows, strict=True)
    ids, client = np.unique(names, return_inverse=True)
    trace = Trace(
        client_ids=tuple(ids.tolist()),
        client=client.astype(np.int32),
        time=np.array(times, dtype=np.float64),
        y=np.zeros(len(rows), dtype=np.int32),
        classes=("a",),
    )
    order = np.random.default_rng(seed).permutation(len(rows))
    moved = replace(trace, client=trace.client[order], time=trace.time[order])

    is_test = choose_test(len(rows), trace.blocks_of(HOUR))

    assert choose_test(len(rows), moved.blocks_of(HOUR)).tolist() == is_test[order].tolist()
    if any(kept):
        part = trace.rows(np.array(kept))
        assert choose_test(part.n_rows, part.blocks_of(HOUR)).tolist() == is_test[np.array(kept)].tolist()
    sides = dict(zip(((name, time // 3600) for name, time, _ in rows), is_test.tolist(), strict=True))
    assert [sides[name, time // 3600] for name, time, _ in rows] == is_test.tolist()


def test_a_fifth_of_the_samples_is_for_testing_and_clients_differ_in_which() -> None:
    trace = spells(60_000)
    is_test = choose_test(trace.n_rows, trace.blocks_of(HOUR)).reshape(3, -1)

    assert is_test.mean(axis=1).tolist() == pytest.approx([0.2] * 3, abs=0.005)
    assert (is_test[0] != is_test[1]).any()


def test_times_too_far_off_for_blocks_are_told() -> None:
    trace = replace(spells(10), time=np.full(30, 1e300))

    with pytest.raises(InputError, match=r"the times reach 1e\+300; give a block longer than 60"):
        trace.blocks_of(60.0)


# ---- which block -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spell", "interval", "block", "is_short"), [(40, "1d", "1h", False), (4, "1d", "5m", False)])
def test_the_block_is_the_shortest_after_which_neighbours_are_strangers(
    spell: int, interval: str, block: str, is_short: bool
) -> None:
    found = measure_likeness(spells(spell=spell), parse_interval(interval))

    assert (found.block, found.is_short) == (block, is_short)
    assert found.are_duplicates


def test_an_interval_holds_five_blocks_even_if_neighbours_stay_alike() -> None:
    found = measure_likeness(spells(spell=400), 6 * HOUR)

    assert found.block == "1h", "and not 6h, of which an interval would hold but one"
    assert found.is_short


def test_samples_that_come_at_random_are_split_one_by_one() -> None:
    trace = spells()
    shuffled = replace(trace, y=np.random.default_rng(1).permutation(trace.y))

    found = measure_likeness(shuffled, 86_400.0)

    assert (found.block, found.are_duplicates, found.is_short) == ("none", False, False)


def test_likeness_that_lasts_for_the_window_is_drift_and_no_near_duplicate() -> None:
    rng, trace = np.random.default_rng(2), spells(60_000)
    week = (trace.time // (7 * 86_400.0)).astype(np.int64) + trace.client
    trace = replace(
        trace, y=np.where(rng.random(trace.n_rows) < 0.7, week % 8, rng.integers(0, 8, trace.n_rows)).astype(np.int32)
    )

    found = measure_likeness(trace, 6 * HOUR)

    assert found.neighbours is not None
    assert found.neighbours > 0.2
    assert found.block == "none"


def test_where_times_are_days_a_day_is_a_block() -> None:
    rng = np.random.default_rng(3)
    trace = Trace(
        client_ids=("a",),
        client=np.zeros(6000, dtype=np.int32),
        time=np.repeat(np.arange(600) * 86_400.0, 10),
        y=np.repeat(rng.integers(0, 8, 600), 10).astype(np.int32),
        classes=CLASSES,
    )

    assert measure_likeness(trace, 86_400.0).block == "1d"


def test_copying_counts_samples_of_one_moment_by_their_share() -> None:
    n_moments = 2000
    trace = Trace(  # two labels at every moment: the nearest sample is right in half of the cases, in any order of rows
        client_ids=("a",),
        client=np.zeros(4 * n_moments, dtype=np.int32),
        time=np.repeat(np.arange(n_moments) * 1000.0, 4),
        y=np.tile([0, 0, 1, 1], n_moments).astype(np.int32),
        classes=("a", "b"),
    )
    turned = trace.rows(np.ones(trace.n_rows, dtype=np.bool_))
    turned = replace(turned, y=turned.y[::-1].copy(), time=turned.time[::-1].copy())

    assert measure_copying(trace, "1s").same == pytest.approx(0.5)
    assert measure_copying(turned, "1s") == measure_copying(trace, "1s")


@pytest.mark.parametrize("name", ["extrasensory", "zephyr"])
def test_the_block_of_a_known_set_is_what_its_labels_say(name: str, data_folder: Path) -> None:
    entry = entry_named(name)
    trace = entry.open(data_folder)
    assert isinstance(trace, Trace)
    assert entry.defaults is not None

    found = measure_likeness(sort_samples(replace(trace, x=None)), parse_interval(entry.defaults.interval))

    assert entry.defaults.block == found.block


def test_the_minutes_of_extrasensory_are_near_duplicates_that_blocks_part(data_folder: Path) -> None:
    trace = entry_named("extrasensory").open(data_folder)
    assert isinstance(trace, Trace)

    by_sample, by_block = measure_copying(trace, "none"), measure_copying(trace, "1h")

    assert by_sample.same == pytest.approx(0.979, abs=0.002)
    assert by_block.same == pytest.approx(0.808, abs=0.005)


# ---- as a run sees it ------------------------------------------------------------------------------------------

SECTION = TraceSection(interval="1d", gap=2, window=4)


def test_a_trace_of_ones_own_is_split_by_the_block_that_is_measured() -> None:
    trace = spells()

    dealt = deal_samples(SECTION, rounds=2, seed=1, source=trace)

    assert dealt.notes == ("train and test are split by blocks of 1h, as measured; set trace.block for others",)
    ordered = sort_samples(trace)
    assert dealt.pool.is_test().tolist() == choose_test(trace.n_rows, ordered.blocks_of(HOUR)).tolist()
    assert (
        deal_samples(SECTION, rounds=2, seed=9, source=trace).pool.is_test().tolist() == dealt.pool.is_test().tolist()
    )


def test_a_run_says_if_no_block_that_fits_is_long_enough() -> None:
    (note,) = deal_samples(replace(SECTION, interval="6h"), rounds=2, seed=1, source=spells(spell=400)).notes

    assert note.startswith("train and test are split by blocks of 1h, as measured, though samples so far apart are")


def test_a_run_can_be_split_by_another_block_or_by_sample_which_is_warned_of() -> None:
    trace = spells()

    by_day = deal_samples(replace(SECTION, block="1d"), rounds=2, seed=1, source=trace)
    by_sample = deal_samples(replace(SECTION, block="none"), rounds=2, seed=1, source=trace)

    assert by_day.notes == ()
    assert by_day.pool.is_test().tolist() == choose_test(trace.n_rows, trace.blocks_of(24 * HOUR)).tolist()
    assert by_sample.pool.is_test().tolist() == choose_test(trace.n_rows).tolist()
    (note,) = by_sample.notes
    assert note.startswith("neighbours in time are near-duplicates, and train and test are split by sample")
    assert 'set trace.block = "1h"' in note


def test_the_servers_own_samples_come_from_no_block_that_is_tested() -> None:
    dealt = deal_samples(SECTION, rounds=2, seed=1, source=spells())
    blocks = dealt.pool.blocks
    assert blocks is not None

    _, held = hold_out(dealt, 50, seed=1)

    tested = set(zip(*(column[dealt.pool.is_test()].tolist() for column in (blocks.owner, blocks.index)), strict=True))
    taken = set(zip(*(column[held.samples].tolist() for column in (blocks.owner, blocks.index)), strict=True))
    assert taken
    assert not taken & tested


def test_a_block_that_is_no_length_of_time_is_refused() -> None:
    with pytest.raises(OptionError, match=r"trace\.block: 'month' is no length of time"):
        deal_samples(replace(SECTION, block="month"), rounds=2, seed=1, source=spells(100))


def test_every_natural_set_says_how_it_is_split() -> None:
    for entry in CATALOG.values():
        if entry.defaults is not None:
            assert entry.defaults.block is not None, entry.name
            assert entry.defaults.block == "none" or parse_span(entry.defaults.block) > 0.0


def test_seeds_test_other_blocks_only_if_the_fold_is_theirs() -> None:
    trace = spells()

    def split(seed: int, fold: int | str = 0) -> list[bool]:
        dealt = deal_samples(replace(SECTION, block="1h", fold=fold), rounds=2, seed=seed, source=trace)
        return list(dealt.pool.is_test().tolist())

    assert split(1) == split(2) == split(5, "seed")
    assert split(1, "seed") == split(9, 1) != split(1)
    with pytest.raises(OptionError, match=r"trace\.fold: 5 is no fold; give a whole number from 0 to 4, or seed"):
        split(1, 5)
