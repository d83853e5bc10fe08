"""What clients report of windows that a shared model sees: as if recomputed, once, and at the right time."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding._typing import Counts, Vector
from fielding.client.drift import Always, AnyChange, Periodic
from fielding.client.drift.detectors import KindDetector
from fielding.client.fleet import FleetReports
from fielding.client.representation.label import LabelShares
from fielding.client.representation.registry import representation_named
from fielding.runtime.observe import LabelObserver, SampleObserver, Sight
from fielding.runtime.workers import Workers
from tests.runtime.plans import softmax_trainer
from tests.runtime.seeing import (
    MODEL,
    Arrivals,
    Told,
    by_vector,
    observer_of,
    seen_from_scratch,
    windows_of,
)

SEEN = ("embedding", "class-means", "confusion", "soft-confusion", "loss", "gradient", "head-gradient", "predictions")
values = st.lists(st.integers(-3, 3), max_size=4).map(tuple)
N_INTERVALS = 6


@st.composite
def arriving(draw: st.DrawFn) -> Arrivals:
    """Return three clients, of whom the first has a sample at the start."""
    blocks = st.lists(values, min_size=N_INTERVALS, max_size=N_INTERVALS)
    arrivals = {client: draw(blocks) for client in range(3)}
    return {**arrivals, 0: [(1, *arrivals[0][0]), *arrivals[0][1:]]}


def told(reports: FleetReports) -> list[tuple[int, tuple[float, ...], int]]:
    """Return who reports what of how many samples."""
    vectors = [tuple(row) for row in reports.representations.tolist()]
    return list(zip(reports.clients.tolist(), vectors, reports.n_samples.tolist(), strict=True))


def reporters(observer: SampleObserver, n_rounds: int) -> list[list[int]]:
    """Return who reports in each round."""
    return [observer.observe(at).clients.tolist() for at in range(n_rounds)]


@settings(max_examples=15)
@given(arriving(), st.integers(1, 3), st.sampled_from(SEEN))
def test_what_is_reported_is_what_a_computation_from_scratch_finds(
    arrivals: Arrivals, n_visible: int, name: str
) -> None:
    windows, representation = windows_of(arrivals, n_visible=n_visible), representation_named(name)
    observer = observer_of(windows, representation, detector=by_vector(Always()))
    reference = representation.tally(seen_from_scratch(windows, 0)).sum(axis=0)

    for round_index in range(N_INTERVALS - n_visible + 1):
        reports = observer.observe(round_index)
        seen = seen_from_scratch(windows, round_index)
        vectors = representation.vectors(representation.tally(seen), reference).astype(np.float32)
        assert set(np.flatnonzero(seen.sizes)) <= set(reports.clients.tolist())
        assert reports.representations.tobytes() == vectors[reports.clients].tobytes()
        assert reports.n_samples.tolist() == seen.sizes[reports.clients].tolist()


@given(arriving(), st.integers(1, 3), st.lists(st.sets(st.integers(0, 2)), min_size=N_INTERVALS, max_size=N_INTERVALS))
def test_any_change_of_label_shares_is_told_as_by_clients_that_count_labels(
    arrivals: Arrivals, n_visible: int, offline: list[set[int]]
) -> None:
    windows = windows_of(arrivals, n_visible=n_visible)
    plain = LabelObserver(windows, AnyChange())
    seeing = SampleObserver(windows, LabelShares(), detector=by_vector(metric="l1"), sight=Sight(windows, None))

    for round_index in range(N_INTERVALS - n_visible + 1):
        expected, found = plain.observe(round_index), seeing.observe(round_index)
        assert told(found) == told(expected)
        held = np.intersect1d(expected.clients, sorted(offline[round_index])).astype(np.int64)
        plain.hold(held)
        seeing.hold(held)


def test_at_the_start_whoever_has_samples_reports() -> None:
    windows = windows_of({0: [(1,), ()], 1: [(), ()], 2: [(-1, 2), ()]})

    reports = observer_of(windows, detector=Told()).observe(0)

    assert reports.clients.tolist() == [0, 2]
    assert reports.n_samples.tolist() == [1, 2]
    assert reports.kinds is not None
    assert not reports.kinds.any()


def test_who_falls_silent_says_so_once_and_who_comes_back_too() -> None:
    windows = windows_of({0: [(1,), (), (), (2,)], 1: [(1,), (1,), (1,), (1,)]})
    observer = observer_of(windows, detector=Told())

    observer.observe(0)
    silent, still, back = (observer.observe(at) for at in (1, 2, 3))

    assert (silent.clients.tolist(), silent.n_samples.tolist()) == ([0], [0])
    assert not silent.representations.any()
    assert not len(still)
    assert (back.clients.tolist(), back.n_samples.tolist()) == ([0], [1])
    assert back.representations.any()


def test_a_held_report_is_told_in_the_next_round_with_what_is_there_then() -> None:
    windows = windows_of({0: [(1,), (3,)], 1: [(1,), (1,)]})
    observer = observer_of(windows, detector=Told())
    first = observer.observe(0)
    observer.hold(np.array([0, 1]))

    again = observer.observe(1)
    observer.hold(np.array([1]))
    third = observer.observe(1)

    assert again.clients.tolist() == [0, 1]
    assert (again.representations[0] != first.representations[0]).any(), "the window has moved on"
    assert told(third) == told(again)[1:], "nothing arrived, and nobody else was woken"
    assert not len(observer.observe(1))


def test_who_drifted_reports_once_more_when_nothing_from_before_is_left() -> None:
    windows = windows_of({0: [(1,)] * 9}, n_visible=3)
    detector = Told(turns=[1])

    # Asked in rounds 1 and 2; the interval that set it off, 4, is the oldest of a window in round 4.
    assert reporters(observer_of(windows, detector=detector), 7) == [[0], [], [0], [], [0], [], []]
    assert reporters(observer_of(windows, detector=Told(turns=[1], is_slow=False)), 7) == [[0], [], [0], [], [], [], []]
    assert len(detector.asked) == 5, "whoever owes a report is not asked"


def test_who_was_offline_when_it_drifted_still_reports_once_more() -> None:
    windows = windows_of({0: [(1,)] * 9}, n_visible=3)
    observer = observer_of(windows, detector=Told(turns=[0]))
    found = []
    for round_index in range(7):
        observer.hold(np.array([0] if round_index == 2 else [], dtype=np.int64))
        found.append(len(observer.observe(round_index)))

    # The drift of round 1 is told again in round 2, still of a mixture, and in round 3, of what came since alone.
    assert found == [1, 1, 1, 1, 0, 0, 0]


def test_who_falls_silent_after_a_drift_owes_nothing() -> None:
    windows = windows_of({0: [(1,), (1,), (1,)], 1: [(1,)] * 9}, n_visible=3)
    observer = observer_of(windows, detector=Told(turns=[1]))

    found = [told(observer.observe(at)) for at in range(7)]

    assert [[client for client, _, _ in one] for one in found] == [[0, 1], [], [0, 1], [0], [1], [], []]
    assert found[3][0][2] == 0, "no samples are left"


def test_a_client_to_which_nothing_happens_when_its_window_turns_over_reports_all_the_same() -> None:
    windows = windows_of({0: [(1,), (1,), (), (1,), (1,), (), ()]}, n_visible=3)

    # In round 3 the interval without samples leaves, and another one without samples comes.
    assert reporters(observer_of(windows, detector=Told(turns=[0])), 4) == [[0], [0], [], [0]]


def test_a_judge_gets_the_samples_of_the_report_those_since_and_the_newest() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,), (1,)], 1: [(1,), (2,), (3,), (-4, 6), (5,)]}, n_visible=3)
    detector = Told()
    reporters(observer_of(windows, detector=detector), 3)

    asked, second = detector.asked[1], np.array([1])
    batches = {name: getattr(asked, name)(second) for name in ("reference", "fresh", "earlier", "newest")}
    assert {name: batch.features[:, 0].tolist() for name, batch in batches.items()} == {
        "reference": [1.0, 2.0, 3.0],
        "fresh": [-4.0, 6.0, 5.0],
        "earlier": [-4.0, 6.0],
        "newest": [5.0],
    }
    assert batches["fresh"].labels.tolist() == batches["fresh"].predicted.tolist() == [0, 1, 1]
    sizes = (asked.age, asked.n_before, asked.n_now, asked.n_fresh)
    assert [size.tolist() for size in sizes] == [[2, 2], [3, 3], [3, 4], [2, 3]]
    assert (asked.before != asked.now).any(axis=1).tolist() == [False, True]


def test_a_window_of_one_interval_has_turned_over_at_once() -> None:
    windows = windows_of({0: [(1,)] * 5})

    assert reporters(observer_of(windows, detector=Told(turns=[1])), 5) == [[0], [], [0], [], []]


def test_a_clock_wakes_clients_without_new_samples() -> None:
    windows = windows_of({0: [(), (), (1,)], 1: [(1,), (2,), (3,), (4,), (5,), (6,)]}, n_visible=3)
    timed = by_vector(Periodic(rounds=2))

    assert reporters(observer_of(windows, detector=timed), 4) == [[0, 1], [], [0, 1], [0]]


def test_nothing_is_reported_before_the_shared_model_arrives() -> None:
    windows = windows_of({0: [(1,), (2,), (3,)], 1: [(-1,), (-1,), (-1,)]})
    observer = observer_of(windows, detector=Told(), is_open=False)

    assert observer.awaits_model
    assert reporters(observer, 2) == [[], []]
    assert not observer.looked.clients.size
    observer.share(MODEL)

    reports = observer.observe(2)
    assert not observer.awaits_model
    assert reports.clients.tolist() == [0, 1]
    assert observer.looked.forward.tolist() == [1, 1], "nobody looks at what came and went before"


def test_every_sample_is_looked_at_once_and_model_and_reference_are_received_once() -> None:
    windows = windows_of({0: [(1, 2), (3,), (1,), ()], 1: [(), (1,), (), (2, 2)]}, n_visible=2)
    observer = observer_of(windows, "embedding", detector=Told())
    forward, received = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for round_index in range(3):
        observer.observe(round_index)
        looked = observer.looked
        forward[looked.clients] += looked.forward
        received[looked.clients] += looked.received
        assert not looked.backward.any()

    assert forward.tolist() == [4, 3], "all that ever came"
    n_sums = representation_named("embedding").tally(seen_from_scratch(windows, 0)).shape[1]
    assert received.tolist() == [MODEL.size + n_sums] * 2


def test_who_has_samples_later_is_sent_the_model_then() -> None:
    windows = windows_of({0: [(1,), (1,)], 1: [(), (1,)]})
    observer = observer_of(windows, detector=Told())
    observer.observe(0)
    first = observer.looked
    observer.observe(1)

    assert first.clients.tolist() == [0]
    assert np.asarray(first.received).item() > MODEL.size
    assert np.asarray(observer.looked.received).tolist() == [0, np.asarray(first.received).item()]


@pytest.mark.parametrize(("name", "passes"), [("gradient", "backward"), ("loss", "forward"), ("label", "forward")])
def test_a_pass_is_charged_as_what_it_is(name: str, passes: str) -> None:
    # Label counts cost nothing, but a test that looks at samples through the model does.
    observer = observer_of(windows_of({0: [(1, 2, 3)]}), name, detector=Told())
    observer.observe(0)

    looked = {"forward": observer.looked.forward.tolist(), "backward": observer.looked.backward.tolist()}
    assert looked == {"forward": [0], "backward": [0]} | {passes: [3]}


def test_without_a_model_nobody_is_charged() -> None:
    windows = windows_of({0: [(1, 2, 3), (1,)]})
    observer = SampleObserver(windows, LabelShares(), detector=Told(), sight=Sight(windows, None))

    assert not observer.awaits_model
    assert told(observer.observe(0)) == [(0, (0.0, 1.0), 3)]
    assert not observer.looked.clients.size


@given(st.permutations([-3, -1, -1, 2, 2, 3]), st.sampled_from(SEEN))
def test_the_order_of_samples_within_a_window_changes_nothing(order: list[int], name: str) -> None:
    straight, mixed = (windows_of({0: [tuple(one)], 1: [(1, -2)]}) for one in (sorted(order), order))

    first, second = (observer_of(windows, name).observe(0) for windows in (straight, mixed))

    assert np.allclose(first.representations, second.representations, rtol=1e-6, atol=1e-7)


def test_a_swap_of_meanings_is_told_with_its_kind() -> None:
    rng = np.random.default_rng(0)
    blocks = [tuple(rng.choice([-2, -1, 1, 2], size=40).tolist()) for _ in range(4)]
    windows = windows_of({0: blocks, 1: blocks}, n_visible=2)
    swapped = (windows.schedule.client == 1) & (windows.schedule.interval == 3)
    windows.schedule.y[swapped] = 1 - windows.schedule.y[swapped]
    observer = SampleObserver(
        windows,
        representation_named("soft-confusion"),
        detector=KindDetector(),
        sight=Sight(windows, Workers(softmax_trainer())),
    )
    observer.share(MODEL)

    assert reporters(observer, 2) == [[0, 1], []]
    reports = observer.observe(2)
    assert reports.clients.tolist() == [1]
    assert reports.kinds is not None
    assert reports.kinds.tolist() == [3], "concept"


def test_a_report_that_is_held_back_still_says_what_kind_of_drift_it_was() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,)]}, n_visible=1)
    observer = observer_of(windows, detector=Told(turns=[0]))
    observer.observe(0)
    first = observer.observe(1)
    observer.hold(first.clients)
    again = observer.observe(2)

    assert first.kinds is not None
    assert again.kinds is not None
    assert first.kinds.tolist() == again.kinds.tolist() == [3]


class Serving:
    """Says that the models err on some rows, and remembers what it was asked."""

    def __init__(self, wrong: Sequence[int]) -> None:
        self.wrong, self.asked = wrong, list[int]()

    def __call__(self, rows: Counts) -> Vector:
        self.asked += rows.tolist()
        return np.isin(rows, self.wrong).astype(np.float64)


def test_samples_are_judged_once_when_they_arrive_and_a_judge_sees_the_verdicts() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,)]}, n_visible=3)
    detector, serving = Told(needs_errors=True), Serving(wrong=[3])
    observer = observer_of(windows, detector=detector)
    observer.observe(0)
    observer.served_errors = serving
    observer.observe(1)

    assert serving.asked == [3], "only what arrives is judged; the first window came before models"
    then, now = detector.asked[0].reference(np.array([0])), detector.asked[0].newest(np.array([0]))
    assert np.isnan(then.errors).all()
    assert now.errors.tolist() == [1.0]
    assert detector.asked[0].earlier(np.array([0])).sizes.tolist() == [0]


def test_verdicts_survive_a_restart_and_nothing_is_judged_again() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,)]}, n_visible=2)
    first = observer_of(windows, detector=Told(needs_errors=True))
    first.served_errors = Serving(wrong=[2])
    for round_index in range(2):
        first.observe(round_index)

    detector, serving = Told(needs_errors=True), Serving(wrong=[])
    second = observer_of(windows, detector=detector)
    second.served_errors = serving
    second.restore(first.arrays())
    for round_index in range(3):
        second.observe(round_index)

    assert serving.asked == [3]
    assert detector.asked[0].newest(np.array([0])).errors.tolist() == [1.0]
    assert detector.asked[1].earlier(np.array([0])).errors.tolist() == [1.0]
    assert first.arrays().keys() == {"served_errors"}


def test_who_needs_no_errors_asks_and_keeps_none() -> None:
    windows = windows_of({0: [(1,), (1,)]})
    observer, serving = observer_of(windows, detector=Told()), Serving(wrong=[])
    observer.served_errors = serving
    for round_index in range(2):
        observer.observe(round_index)

    assert not serving.asked
    assert observer.arrays() == {}
