"""Lies instead of reports, and spoiled uploads."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts, Floats
from fielding.client.drift import AnyChange, Never
from fielding.client.fleet import FleetReports
from fielding.client.report import ReportBatch
from fielding.coordinator import Coordinator
from fielding.distance import metric_named
from fielding.errors import OptionError
from fielding.runtime.observe import NOTHING, LabelObserver, LookingCosts, VectorObserver
from fielding.simulation.assembly import Own
from fielding.simulation.attacks import (
    LIES,
    SPOILS,
    Lie,
    LyingObserver,
    Spoiling,
    check_spoil,
    draw_liars,
    spoil_models,
)
from fielding.simulation.experiment import run
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from tests.simulation.run_cases import Sample, planted_windows, small_pool, table
from tests.simulation.small import small_windows

N_CLIENTS, N_INTERVALS = 20, 6
N_ROUNDS = 12
"""With a gap of 2 and a window of 4 rounds, data arrive at rounds 2, 4, 6 and 8."""


def fresh_windows() -> SlidingWindows:
    return small_windows(N_CLIENTS, N_INTERVALS)


WINDOWS = fresh_windows()


def honest(windows: SlidingWindows) -> LabelObserver:
    return LabelObserver(windows, AnyChange())


def lying(kind: str, share: float = 0.4, *, seed: int = 3, windows: SlidingWindows | None = None) -> LyingObserver:
    windows = windows or fresh_windows()
    return LyingObserver(honest(windows), windows, lie=Lie(kind=kind, share=share), seed=seed)


def told(reports: FleetReports) -> dict[int, list[float]]:
    return dict(zip(reports.clients.tolist(), reports.representations.tolist(), strict=True))


@dataclass
class Planned:
    """An observer whose reports are written down beforehand: per round the row of each client that reports."""

    rounds: Sequence[dict[int, list[float]]]
    looked: LookingCosts = field(default_factory=LookingCosts)
    held: list[list[int]] = field(default_factory=list)
    level: float | None = None
    span: int = 1

    def observe(self, round_index: int) -> FleetReports:
        rows = self.rounds[round_index]
        if not rows:
            return NOTHING
        return FleetReports(
            clients=np.array(sorted(rows)),
            representations=np.array([rows[client] for client in sorted(rows)], dtype=np.float32),
            n_samples=np.array([int(any(rows[client])) for client in sorted(rows)]),
        )

    def hold(self, clients: Counts) -> None:
        self.held.append(clients.tolist())


def everyone(row: list[float]) -> dict[int, list[float]]:
    return dict.fromkeys(range(N_CLIENTS), row)


def planned_lies(rounds: Sequence[dict[int, list[float]]], kind: str, *, is_histogram: bool = True) -> LyingObserver:
    lie = Lie(kind=kind, share=0.4, is_histogram=is_histogram)
    return LyingObserver(Planned(rounds), fresh_windows(), lie=lie, seed=3)


# ---- who -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.floats(0.0, 1.0), st.integers(0, 99))
def test_exactly_the_share_lies(n_clients: int, share: float, seed: int) -> None:
    assert draw_liars(range(n_clients), share, seed=seed).sum() == round(share * n_clients)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(0, 99))
def test_whoever_lies_in_a_small_share_lies_in_a_larger_one(one: float, other: float, seed: int) -> None:
    few, many = (draw_liars(range(30), share, seed=seed) for share in sorted((one, other)))

    assert (many | ~few).all()


def test_who_lies_depends_on_seed_and_id_and_not_on_the_order_of_clients() -> None:
    ids = [f"client {at}" for at in range(40)]
    liars = draw_liars(ids, 0.5, seed=1)

    assert (draw_liars(ids[::-1], 0.5, seed=1)[::-1] == liars).all()
    assert (draw_liars(ids, 0.5, seed=2) != liars).any()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True, "half"])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match="from 0 to 1"):
        Lie(share=share)


def test_an_unknown_lie_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'collude'"):
        Lie(kind="colude")


def test_the_liars_can_be_read_and_not_written() -> None:
    observer = lying("permute")

    assert observer.liars.sum() == 8
    with pytest.raises(ValueError, match="read-only"):
        observer.liars[0] = True


# ---- what holds for all lies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LIES)
def test_honest_clients_tell_the_truth_when_they_would_have(kind: str) -> None:
    windows = fresh_windows()
    truth, observer = honest(windows), lying(kind, windows=windows)

    for at in range(N_ROUNDS):
        expected, got = told(truth.observe(at)), told(observer.observe(at))
        liars = set(np.flatnonzero(observer.liars).tolist())
        assert {client: row for client, row in got.items() if client not in liars} == {
            client: row for client, row in expected.items() if client not in liars
        }
        assert expected.keys() <= got.keys()


@pytest.mark.parametrize("kind", LIES)
def test_lies_about_histograms_are_histograms_that_a_coordinator_accepts(kind: str) -> None:
    observer, coordinator = lying(kind), Coordinator()

    for at in range(N_ROUNDS):
        reports = observer.observe(at)
        assert reports.representations.dtype == np.float32
        assert (reports.representations >= 0.0).all()
        assert reports.representations.sum(axis=1) == pytest.approx(np.ones(len(reports)), abs=1e-6)
        assert (np.diff(reports.clients) > 0).all()
        batch = ReportBatch(client_ids=reports.clients.tolist(), representations=reports.representations)
        if len(reports):
            assert len(coordinator.update(batch, step=at).reported) == len(reports)


@pytest.mark.parametrize("kind", LIES)
def test_a_liar_whose_data_are_gone_says_so(kind: str) -> None:
    alive, gone = everyone([0.2, 0.3, 0.5]), everyone([0.0, 0.0, 0.0])
    observer = planned_lies([alive, {}, gone, {}, {}, {}], kind)

    heard = [observer.observe(at) for at in range(6)]

    assert not heard[2].representations.any()
    assert [len(reports) for reports in heard] == [20, 0, 20, 0, 0, 0]


@pytest.mark.parametrize("kind", LIES)
def test_a_run_that_is_observed_again_hears_the_same_lies(kind: str) -> None:
    first, again = lying(kind), lying(kind)

    for at in range(N_ROUNDS):
        assert told(first.observe(at)) == told(again.observe(at))


@pytest.mark.parametrize("kind", sorted(LIES.keys() - {"flip-flop"}))
def test_another_seed_tells_other_lies(kind: str) -> None:
    rows = {client: [0.1, 0.2, 0.7] if client % 2 else [0.6, 0.3, 0.1] for client in range(20)}
    share = 0.5 if kind == "mimic" else 1.0  # with nobody honest there is nobody to mimic
    heard = {
        str(told(LyingObserver(Planned([rows]), WINDOWS, lie=Lie(kind=kind, share=share), seed=seed).observe(0)))
        for seed in range(12)
    }

    assert len(heard) > 1


@pytest.mark.parametrize("kind", LIES)
def test_lies_about_vectors_keep_their_length(kind: str) -> None:
    # Negative numbers and lengths other than 1; all as long as each other, so that a mimic keeps its length, too.
    rows = {client: [3.0, 0.0, -4.0] if client % 2 else [0.0, 5.0, 0.0] for client in range(20)}
    observer = planned_lies([rows, {}, {}], kind, is_histogram=False)

    for at in range(3):
        reports = observer.observe(at)
        assert np.linalg.norm(reports.representations, axis=1) == pytest.approx(5.0 * np.ones(len(reports)), rel=1e-5)


def test_without_liars_the_reports_are_those_of_the_inner_observer() -> None:
    inner = Planned([{0: [0.5, 0.5]}])
    observer = LyingObserver(inner, fresh_windows(), lie=Lie(kind="random"), seed=1)

    assert told(observer.observe(0)) == {0: [0.5, 0.5]}


def test_reports_that_could_not_be_sent_are_handed_back_and_cost_what_the_truth_costs() -> None:
    inner = Planned([{}], looked=LookingCosts.at(np.array([0, 7]), "forward"))
    observer = LyingObserver(inner, fresh_windows(), lie=Lie(), seed=1)
    observer.hold(np.array([3, 4]))

    assert inner.held == [[3, 4]]
    assert observer.looked is inner.looked


# ---- the lies one by one ---------------------------------------------------------------------------------------

SHARES = [0.0625, 0.1875, 0.25, 0.5, 0.0, 0.0, 0.0]
STEADY = everyone(SHARES)


def lies_of(kind: str, rows: dict[int, list[float]] = STEADY, n_rounds: int = 3) -> list[dict[int, list[float]]]:
    """Return what the eight liars of twenty clients say that report the same rows in every round."""
    observer = planned_lies([rows] * n_rounds, kind)
    liars = set(np.flatnonzero(observer.liars).tolist())
    heard = [told(observer.observe(at)) for at in range(n_rounds)]
    return [{client: row for client, row in one.items() if client in liars} for one in heard]


def test_a_permutation_is_fixed_for_each_liar_and_differs_between_them() -> None:
    first, second, third = lies_of("permute")

    assert first == second == third
    assert len({tuple(row) for row in first.values()}) > 5
    assert all(sorted(row) == sorted(SHARES) for row in first.values())


def test_the_same_permutation_acts_on_whatever_a_liar_has() -> None:
    other = [0.25, 0.5, 0.0625, 0.1875, 0.0, 0.0, 0.0]
    (first,) = lies_of("permute", n_rounds=1)
    (second,) = lies_of("permute", everyone(other), n_rounds=1)
    exchange = dict(zip(SHARES, other, strict=True))

    for client, row in first.items():
        assert second[client] == [exchange[share] for share in row]


def test_a_permutation_anew_differs_from_report_to_report() -> None:
    first, second, third = lies_of("permute-anew")

    assert first != second != third
    assert all(sorted(row) == sorted(SHARES) for row in third.values())


def test_random_histograms_are_spread_over_all_of_them() -> None:
    rows = np.array([row for heard in lies_of("random", n_rounds=60) for row in heard.values()])

    assert len(np.unique(rows, axis=0)) == len(rows) == 480
    # A coordinate of an even draw from the simplex of 7 has mean 1/7 and variance 6 / (49 * 8).
    assert rows.mean(axis=0) == pytest.approx(np.full(7, 1 / 7), abs=0.025)
    assert rows.std(axis=0) == pytest.approx(np.full(7, (6 / 392) ** 0.5), abs=0.03)


def test_random_vectors_point_everywhere() -> None:
    rows = everyone([3.0, 4.0, 0.0])
    observer = planned_lies([rows] * 60, "random", is_histogram=False)
    heard = np.array([row for at in range(60) for row in observer.observe(at).representations[observer.liars]])

    # Coordinates of an even draw from the sphere of radius 5 in 3 dimensions: mean 0, mean square 25/3.
    assert np.abs(heard.mean(axis=0)).max() < 0.45
    assert np.square(heard).mean(axis=0) == pytest.approx(np.full(3, 25 / 3), rel=0.15)


def test_each_liar_names_one_label_of_its_own_for_ever() -> None:
    first, second, _ = lies_of("one-hot")

    assert first == second
    assert all(sorted(row) == [0.0] * 6 + [1.0] for row in first.values())
    assert len({tuple(row) for row in first.values()}) > 2


@pytest.mark.parametrize(("kind", "n_targets"), [("collude", 1), ("collude-two", 2)])
def test_colluders_name_the_same_labels(kind: str, n_targets: int) -> None:
    first, second, _ = lies_of(kind)

    assert first == second
    assert len({tuple(row) for row in first.values()}) == n_targets
    assert all(sorted(row) == [0.0] * 6 + [1.0] for row in first.values())


@given(st.integers(0, 999), st.integers(2, 5))
def test_two_targets_are_two_labels(seed: int, n_labels: int) -> None:
    rows = everyone([1.0 / n_labels] * n_labels)
    observer = LyingObserver(Planned([rows]), WINDOWS, lie=Lie(kind="collude-two", share=1.0), seed=seed)
    heard = observer.observe(0).representations

    assert len(np.unique(heard, axis=0)) == 2


def groups(shift: float = 0.0) -> dict[int, list[float]]:
    """Return clients of four groups, each around a label of its own, no two alike; a shift moves all a little."""
    rows = np.eye(4)[np.arange(20) % 4] * 0.8 + 0.04
    rows[np.arange(20), (np.arange(20) + 1) % 4] += 0.001 * np.arange(20) + shift
    return dict(enumerate((rows / rows.sum(axis=1, keepdims=True)).tolist()))


def test_a_mimic_poses_as_an_honest_client_of_another_group_for_ever() -> None:
    observer = planned_lies([groups(), groups(0.01), {}], "mimic")
    first, second = (told(observer.observe(at)) for at in range(2))
    for client in np.flatnonzero(observer.liars).tolist():
        (other,) = [one for one in range(20) if first[one] == first[client] and not observer.liars[one]]
        assert other % 4 != client % 4
        assert second[client] == second[other] != first[other]


def test_a_mimic_repeats_the_newest_report_of_a_client_that_went_silent() -> None:
    liars = np.flatnonzero(planned_lies([], "mimic").liars).tolist()
    silent = everyone([0.0] * 4) | {client: groups(0.01)[client] for client in liars}
    observer = planned_lies([groups(), silent], "mimic")
    first, second = (told(observer.observe(at)) for at in range(2))

    assert {client: first[client] for client in liars} == {client: second[client] for client in liars}


def test_without_an_honest_client_a_mimic_tells_the_truth() -> None:
    windows = fresh_windows()
    observer = LyingObserver(honest(windows), windows, lie=Lie(kind="mimic", share=1.0), seed=1)

    assert told(observer.observe(0)) == told(honest(fresh_windows()).observe(0))


def flips(observer: LyingObserver, client: int, n_rounds: int) -> list[tuple[int, list[float]]]:
    heard = [(at, told(observer.observe(at))) for at in range(n_rounds)]
    return [(at, rows[client]) for at, rows in heard if client in rows]


def test_a_flip_flop_speaks_at_every_arrival_and_changes_its_story_each_time() -> None:
    windows = fresh_windows()
    inner = LabelObserver(windows, Never())  # nobody drifts, and all are heard once
    observer = LyingObserver(inner, windows, lie=Lie(kind="flip-flop", share=0.4), seed=3)
    truth = told(LabelObserver(windows, Never()).observe(0))
    liar = next(at for at in np.flatnonzero(observer.liars).tolist() if len(set(truth[at])) == 3)

    heard = flips(observer, liar, N_ROUNDS)

    assert [at for at, _ in heard] == [0, 2, 4, 6, 8]
    assert [rows for _, rows in heard[::2]] == [truth[liar]] * 3
    assert heard[1][1] == heard[3][1]
    assert sorted(heard[1][1]) == sorted(truth[liar])


def test_a_flip_flop_that_drifted_flips_its_new_truth() -> None:
    observer = planned_lies([everyone([0.1, 0.2, 0.7]), {}, everyone([0.3, 0.6, 0.1]), {}, {}], "flip-flop")
    liars = np.flatnonzero(observer.liars)
    heard = [observer.observe(at) for at in range(5)]

    assert [len(one) for one in heard] == [20, 0, 20, 0, 8]
    assert np.sort(heard[2].representations[liars], axis=1) == pytest.approx(np.tile([0.1, 0.3, 0.6], (8, 1)))
    assert heard[4].representations == pytest.approx(np.tile([0.3, 0.6, 0.1], (8, 1)))


def test_what_a_flip_flop_could_not_send_it_sends_in_the_next_round() -> None:
    windows = fresh_windows()
    inner = LabelObserver(windows, Never())
    observer = LyingObserver(inner, windows, lie=Lie(kind="flip-flop", share=0.4), seed=3)
    heard = [observer.observe(at) for at in range(3)]
    observer.hold(heard[2].clients)
    again = observer.observe(3)

    assert heard[2].clients.tolist() == np.flatnonzero(observer.liars).tolist()
    assert again.clients.tolist() == heard[2].clients.tolist()
    assert heard[2].n_samples.tolist() == windows.training(2).sizes[heard[2].clients].tolist()


def mean_and_one(x: Floats, y: Counts, n_classes: int) -> Floats:
    return np.array([x.mean(), 1.0])


def test_vectors_of_ones_own_can_be_lied_about() -> None:
    samples = [Sample(client=client, interval=0, value=3.0) for client in range(4)]
    windows = planted_windows(samples, n_clients=4, plan=WindowPlan(gap=1, window=1), n_intervals=1)
    inner = VectorObserver(windows, mean_and_one, drift_test=AnyChange(), metric=metric_named("l1"))
    lie = Lie(kind="collude", share=0.5, is_histogram=False)
    observer = LyingObserver(inner, windows, lie=lie, seed=1)

    heard = observer.observe(0).representations

    assert heard[~observer.liars].tolist() == [[3.0, 1.0]] * 2
    assert np.sort(heard[observer.liars], axis=1) == pytest.approx(np.array([[0.0, 10**0.5]] * 2))


TRAINED = np.array([[3.0, 1.0], [0.0, 0.0]], dtype=np.float32)
START = np.array([[2.0, 1.5], [0.0, 1.0]], dtype=np.float32)


def test_a_flipped_update_leads_as_far_the_other_way() -> None:
    assert spoil_models(TRAINED, START, kind="sign-flip").tolist() == [[1.0, 2.0], [0.0, 2.0]]


def test_a_scaled_update_leads_ten_times_as_far() -> None:
    assert spoil_models(TRAINED, START, kind="scale").tolist() == [[12.0, -3.5], [0.0, -9.0]]


def test_one_number_of_each_model_is_none() -> None:
    assert np.isnan(spoil_models(TRAINED, START, kind="nan")).tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize("kind", SPOILS)
def test_what_was_trained_stays_as_it_was_and_models_stay_float32(kind: str) -> None:
    trained, start = TRAINED.copy(), START.copy()
    made = spoil_models(trained, start, kind=kind)

    assert made.dtype == np.float32
    assert made.shape == TRAINED.shape
    assert (trained == TRAINED).all()
    assert (start == START).all()


def test_honest_uploads_are_the_models_themselves() -> None:
    assert spoil_models(TRAINED, START, kind="none") is TRAINED


def test_an_update_that_grows_beyond_all_numbers_is_infinite_and_no_warning() -> None:
    large = np.full((1, 1), 3e38, dtype=np.float32)

    assert np.isinf(spoil_models(large, np.zeros_like(large), kind="scale")).all()


def test_nobody_to_spoil_is_nobody_spoiled() -> None:
    nobody = np.zeros((0, 2), dtype=np.float32)

    assert [spoil_models(nobody, nobody, kind=kind).shape for kind in SPOILS] == [(0, 2)] * 4


def test_an_unknown_way_to_spoil_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'scale'"):
        check_spoil("scaled")


def test_only_attackers_spoil_and_each_from_the_model_that_it_started_with() -> None:
    offered = np.array([[0.0], [100.0]], dtype=np.float32)
    trained = np.array([[1.0], [2.0], [103.0]], dtype=np.float32)
    spoiling = Spoiling(attackers=np.array([True, False, False, True]), kind="sign-flip")

    uploads = spoiling.apply(trained, np.array([0, 1, 3]), offered=offered, start=np.array([0, 0, 1]))

    assert uploads.tolist() == [[-1.0], [2.0], [97.0]]
    assert trained.tolist() == [[1.0], [2.0], [103.0]]


@pytest.mark.parametrize(("kind", "client"), [("none", 0), ("scale", 1)])
def test_where_nobody_spoils_uploads_are_what_was_trained(kind: str, client: int) -> None:
    spoiling = Spoiling(attackers=np.array([True, False]), kind=kind)
    trained = TRAINED[:1]

    assert spoiling.apply(trained, np.array([client]), offered=START, start=np.array([0])) is trained


def slots_lost(selection: str, seed: int) -> list[int]:
    """Return how many participants of each round of a run sent no model; 6 of 30 clients never do."""
    config = table(
        seed=seed,
        rounds=40,
        trace={"clients": 30, "liars": 0.2, "spoil": "nan"},
        training={"participants": 6, "local_steps": 1},
        method={"name": "global"},
        selection={"name": selection},
        evaluation={"every": 40},
        checkpoint={"every": 40},
    )
    rows = run(config, own=Own(samples=small_pool()), page=False).rounds
    return [int(str(row["n_failed"])) for row in rows]


def test_oort_loses_no_more_slots_to_clients_that_never_send_a_model_than_chance_does() -> None:
    seeds = range(3)
    oort, uniform = (
        np.mean([slots_lost(selection, seed)[-20:] for seed in seeds]) for selection in ("oort", "uniform")
    )

    assert uniform == pytest.approx(6 * 0.2, abs=0.4)
    assert oort <= uniform
