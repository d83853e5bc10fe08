import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client import fleet as fleet_module
from fielding.client.arrivals import NO_ARRIVALS, Arrivals
from fielding.client.drift import DRIFT_TESTS, AnyChange, Chi2, DriftTest, Evidence, Never, Periodic, Threshold
from fielding.client.fleet import Fleet
from fielding.client.monitor import Monitor
from fielding.client.window import Window
from fielding.errors import InputError, OptionError
from fielding.rng import stream

EVERY_TEST: list[DriftTest] = [family() for family in DRIFT_TESTS.values()]
EVERY_TEST += [Chi2(alpha=0.2, delta_min=0.0, min_fresh=2), Chi2(growth=2), Periodic(rounds=3), Threshold(eps=0.7)]


def sparse_rows(rng: np.random.Generator, n_clients: int, n_labels: int) -> np.ndarray:
    """Return counts of arrivals: some clients get nothing, some a little, some much."""
    sizes = rng.choice([0, 0, 1, 3, 20], size=n_clients)
    return rng.multinomial(sizes, rng.dirichlet(np.full(n_labels, 0.3), size=n_clients))


def assert_same_as_monitors(drift_test: DriftTest, max_rounds: int | None, *, seed: int, n_steps: int) -> None:
    rng, n_clients, n_labels, now = stream(seed, "fleet"), 6, 4, 0
    fleet = Fleet(n_clients, n_labels, drift_test=drift_test, max_rounds=max_rounds)
    monitors = [
        Monitor(at, n_labels, drift_test=drift_test, window=Window(max_rounds=max_rounds)) for at in range(n_clients)
    ]
    for step in range(n_steps):
        now += int(rng.integers(3))
        rows = sparse_rows(rng, n_clients, n_labels) * int(rng.random() < 0.7)
        if step % 7 == 6:
            fleet.report_again([step % n_clients])
            monitors[step % n_clients].report_again()
        if step == n_steps // 2:
            n_labels += 1
            fleet.grow(n_labels)
            rows = np.pad(rows, ((0, 0), (0, 1)), constant_values=1)
            for monitor in monitors:
                monitor.grow(n_labels)

        together = fleet.arrive(Arrivals.from_rows(rows), now)

        alone = [
            monitor.observe(np.repeat(np.arange(n_labels), row), now)
            for monitor, row in zip(monitors, rows, strict=True)
        ]
        reports = [report for report in alone if report is not None]
        assert together.clients.tolist() == [report.client_id for report in reports]
        assert together.representations.tolist() == [report.representation.tolist() for report in reports]
        assert together.n_samples.tolist() == [report.n_samples for report in reports]


@pytest.mark.parametrize("drift_test", EVERY_TEST, ids=repr)
@given(st.integers(0, 2**32), st.none() | st.integers(1, 8), st.integers(1, 25))
def test_fleet_says_what_a_monitor_per_client_says(
    drift_test: DriftTest, seed: int, max_rounds: int | None, n_steps: int
) -> None:
    assert_same_as_monitors(drift_test, max_rounds, seed=seed, n_steps=n_steps)


def test_fleet_in_chunks_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "CHUNK", 2)
    for seed in range(10):
        assert_same_as_monitors(AnyChange(), 4, seed=seed, n_steps=20)


def test_random_streams_make_every_kind_of_report() -> None:
    rng, fleet = stream(1, "kinds"), Fleet(6, 4, drift_test=Chi2(), max_rounds=4)
    n_silent = n_first = n_later = 0
    known = np.zeros(6)
    for now in range(60):
        reports = fleet.arrive(Arrivals.from_rows(sparse_rows(rng, 6, 4)), now)
        n_silent += int((reports.n_samples == 0).sum())
        n_first += int((known[reports.clients] == 0).sum())
        n_later += int(((known[reports.clients] > 0) & (reports.n_samples > 0)).sum())
        known[reports.clients] = reports.n_samples

    assert min(n_silent, n_first, n_later) > 3


def test_only_clients_with_news_are_tested() -> None:
    tested: list[int] = []

    class Spy:
        is_timed = False

        def drifted(self, evidence: Evidence) -> np.ndarray:
            tested.append(evidence.n_clients)
            return np.zeros(evidence.n_clients, dtype=np.bool_)

    fleet = Fleet(100, 2, drift_test=Spy(), max_rounds=2)
    fleet.arrive(Arrivals.from_rows(np.ones((100, 2), dtype=np.int64)), round_index=0)
    fleet.arrive(Arrivals(clients=np.array([5, 9, 5]), labels=np.array([0, 1, 1])), round_index=1)
    fleet.arrive(NO_ARRIVALS, round_index=1)
    fleet.arrive(NO_ARRIVALS, round_index=2)

    # Round 0: all report for the first time. Round 1: two get data. Then nothing. Round 2: those two lost some.
    assert tested == [2, 2]


def test_counts_are_those_of_the_windows_and_cannot_be_edited() -> None:
    fleet = Fleet(2, 2, drift_test=Never(), max_rounds=2)
    fleet.arrive(Arrivals(clients=np.array([0, 0]), labels=np.array([1, 1])), round_index=0)
    fleet.arrive(Arrivals(clients=np.array([1]), labels=np.array([0]), counts=np.array([5])), round_index=1)

    assert fleet.counts.tolist() == [[0, 2], [5, 0]]
    with pytest.raises(ValueError, match="read-only"):
        fleet.counts[0, 0] = 1
    fleet.arrive(NO_ARRIVALS, round_index=2)
    assert fleet.counts.tolist() == [[0, 0], [5, 0]]


def test_refused_arrivals_leave_the_fleet_as_it_was() -> None:
    fleet = Fleet(2, 2, drift_test=AnyChange(), max_rounds=2)
    fleet.arrive(Arrivals(clients=np.array([0]), labels=np.array([0])), round_index=3)

    with pytest.raises(InputError, match="labels of arrivals hold 2"):
        fleet.arrive(Arrivals(clients=np.array([0, 0]), labels=np.array([1, 2])), round_index=9)
    with pytest.raises(InputError, match="round 2 comes after round 3"):
        fleet.arrive(Arrivals(clients=np.array([0]), labels=np.array([1])), round_index=2)
    assert fleet.counts.tolist() == [[1, 0], [0, 0]]
    assert len(fleet.arrive(NO_ARRIVALS, round_index=4)) == 0


def test_fleet_does_not_edit_or_keep_what_it_is_given() -> None:
    clients, labels, counts = np.array([0]), np.array([1]), np.array([2])
    fleet = Fleet(1, 2, drift_test=AnyChange(), max_rounds=1)
    fleet.arrive(Arrivals(clients=clients, labels=labels, counts=counts), round_index=0)
    labels[0] = 0

    assert (clients.tolist(), counts.tolist()) == ([0], [2])
    fleet.arrive(NO_ARRIVALS, round_index=1)
    assert fleet.counts.tolist() == [[0, 0]]


def test_fleet_without_clients_has_nothing_to_tell() -> None:
    assert Fleet(0, 3, drift_test=Periodic()).arrive(NO_ARRIVALS, 0).representations.shape == (0, 3)


def test_fleet_refuses_sizes_that_are_none() -> None:
    with pytest.raises(OptionError, match="n_clients is -1"):
        Fleet(-1, 2, drift_test=Never())
    with pytest.raises(OptionError, match="n_labels is 0"):
        Fleet(1, 0, drift_test=Never())
    with pytest.raises(OptionError, match="max_rounds is 0"):
        Fleet(1, 1, drift_test=Never(), max_rounds=0)
    with pytest.raises(InputError, match="clients hold 1; give whole numbers from 0 to 0"):
        Fleet(1, 1, drift_test=Never()).report_again([1])
