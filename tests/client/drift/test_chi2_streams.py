"""The default label test on streams: silent without drift, and a power that must not get lost again."""

import numpy as np
import pytest

from fielding.client.arrivals import Arrivals
from fielding.client.drift import Chi2
from fielding.client.fleet import Fleet
from fielding.rng import stream

N_CLIENTS = 150


def follow(arrivals: list[np.ndarray], n_visible: int) -> list[np.ndarray]:
    """Return who reports at each arrival after the first window, all of which is reported."""
    fleet = Fleet(N_CLIENTS, arrivals[0].shape[1], drift_test=Chi2(), max_rounds=n_visible)
    found = []
    for now, counts in enumerate(arrivals):
        if now < n_visible:
            fleet.report_again(np.flatnonzero(fleet.counts.any(axis=1)))
        found.append(fleet.arrive(Arrivals.from_rows(counts), now).clients)
    return found[n_visible:]


@pytest.mark.parametrize("size", [10, 48, 500])
@pytest.mark.parametrize("n_visible", [1, 4])
@pytest.mark.parametrize("n_labels", [2, 10, 100])
@pytest.mark.parametrize("mix", ["even", "skewed"])
def test_static_data_stay_silent(size: int, n_visible: int, n_labels: int, mix: str) -> None:
    rng = stream(2, "static", size, n_visible, n_labels)
    shares = np.ones(n_labels) if mix == "even" else 1 / np.arange(1.0, n_labels + 1)
    per_arrival = -(-size // n_visible)
    arrivals = [rng.multinomial(per_arrival, shares / shares.sum(), size=N_CLIENTS) for _ in range(40 + n_visible)]

    n_reports = sum(who.size for who in follow(arrivals, n_visible))

    # One in a hundred of 6,000 is 60; the standard error of a share of 0.01 is 8 reports.
    assert n_reports <= 76


@pytest.mark.parametrize(("shift", "least"), [(0.38, 0.7), (0.51, 0.9)])
def test_small_shifts_are_found_on_windows_of_48_samples(shift: float, least: float) -> None:
    rng = stream(1, "shift")
    shares = np.arange(1.0, 11.0) / 55
    other = (1 - shift / 2 / (1 - shares[0])) * shares + shift / 2 / (1 - shares[0]) * np.eye(10)[0]
    assert np.abs(shares - other).sum() == pytest.approx(shift)
    arrivals = [rng.multinomial(12, shares if now < 20 else other, size=N_CLIENTS) for now in range(24)]

    after = np.unique(np.concatenate(follow(arrivals, 4)[-4:]))

    assert after.size >= least * N_CLIENTS
