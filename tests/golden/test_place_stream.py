import numpy as np
import pytest

from fielding.client.drift import Chi2
from fielding.coordinator import Coordinator, Policy
from fielding.rng import stream
from fielding.traces.histograms import label_reports
from tests.golden.place_stream import (
    ABSENT,
    CHANGED_PLACE,
    CLOSED_PLACE,
    CLOSING_DAY,
    MASS_DAY,
    N_CLIENTS,
    N_DAYS,
    OPENED_PLACE,
    OPENING_DAY,
    SILENT_DAYS,
    PlaceStream,
    place_stream,
)

SEEDS = range(3)


@pytest.fixture(scope="module", params=SEEDS)
def example(request: pytest.FixtureRequest) -> PlaceStream:
    return place_stream(stream(request.param, "demo"))


def test_equal_generators_give_equal_streams() -> None:
    first, second, other = (place_stream(stream(seed, "demo")) for seed in (1, 1, 2))

    assert first.trace.y.tolist() == second.trace.y.tolist()
    assert first.trace.weights.tolist() == second.trace.weights.tolist()
    assert first.places.tolist() == second.places.tolist()
    assert first.places.tolist() != other.places.tolist()


def test_clients_have_data_exactly_while_they_are_somewhere(example: PlaceStream) -> None:
    has_data = np.zeros((N_DAYS, N_CLIENTS), dtype=np.bool_)
    has_data[example.trace.interval_of("1d"), example.trace.client] = True

    assert has_data.tolist() == (example.places != ABSENT).tolist()


def test_a_step_knows_the_places_of_its_last_day(example: PlaceStream) -> None:
    assert example.places_at(0).tolist() == example.places[example.plan.n_first - 1].tolist()


def test_most_days_are_quiet_and_one_is_not(example: PlaceStream) -> None:
    both = (example.places[1:] != ABSENT) & (example.places[:-1] != ABSENT)
    moves = ((example.places[1:] != example.places[:-1]) & both).sum(axis=1)

    assert np.median(moves) <= 1
    assert moves[MASS_DAY - 1] >= N_CLIENTS // 4
    assert moves.argmax() + 1 in (MASS_DAY, OPENING_DAY)


def test_places_open_and_close(example: PlaceStream) -> None:
    assert OPENED_PLACE not in example.places[:OPENING_DAY]
    assert OPENED_PLACE in example.places[OPENING_DAY]
    assert CLOSED_PLACE in example.places[CLOSING_DAY - 1]
    assert CLOSED_PLACE not in example.places[CLOSING_DAY:]


def test_some_clients_join_late_and_some_fall_silent_and_return(example: PlaceStream) -> None:
    present = example.places != ABSENT

    assert 3 <= (~present[0]).sum() <= 8
    assert present[-1].all()
    silent = ~present[SILENT_DAYS.start] & present[0]
    assert silent.sum() == 10
    assert present[SILENT_DAYS.stop, silent].all()
    assert (example.places[0, silent] != example.places[SILENT_DAYS.stop, silent]).sum() >= 5


def test_a_place_changes_what_is_seen_there_only_on_its_day(example: PlaceStream) -> None:
    day, trace = example.trace.interval_of("1d"), example.trace
    here = example.places[day, trace.client] == CHANGED_PLACE

    def shares(first: int, stop: int) -> np.ndarray:
        seen = here & (day >= first) & (day < stop)
        counts = np.bincount(trace.y[seen], weights=trace.weights[seen], minlength=10)
        return counts / counts.sum()

    assert np.abs(shares(0, 13) - shares(13, MASS_DAY)).sum() < 0.1
    assert np.abs(shares(0, MASS_DAY) - shares(MASS_DAY, N_DAYS)).sum() > 0.5


def test_there_are_drifts_that_moves_settle_and_drifts_that_they_do_not(example: PlaceStream) -> None:
    coordinator = Coordinator(Policy(seed=1))

    decisions = [
        coordinator.update(batch, step=step)
        for step, batch in label_reports(example.trace, plan=example.plan, drift_test=Chi2())
    ]

    n_reclustered = sum(decision.reclustered for decision in decisions)
    n_settled = sum(bool(decision.moved) and not decision.reclustered for decision in decisions)
    assert len(decisions) >= 45
    assert 1 <= n_reclustered <= 6
    assert n_settled >= 15
