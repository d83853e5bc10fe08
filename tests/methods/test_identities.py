"""Every identity of METHODS.md 14, and where it is proven; those that no other test proves stand here, as whole runs.

=====================================================  ================================================================
identity                                               proven in
=====================================================  ================================================================
q-FedAvg with q = 0 is the mean                        conformance/test_aggregators: test_q_of_zero_is_the_mean
Adam, Yogi without moments: a scaled mean step         conformance/test_aggregators (Adam); here (both, as runs)
FedProx with mu = 0 is SGD                             training/test_numpy_trainer, test_torch_trainer: ..prox_of_zero..
FedProx with a huge mu stays                           training/test_numpy_trainer: test_a_huge_prox_keeps..
FedProx pulls toward the start (sign)                  training/test_numpy_trainer: test_without_a_loss_gradient_prox..
  (all trainers)                                       conformance/test_trainer_requests: test_a_pull_toward_the_start..
IFCA, Auxo, CFL with one cluster are FedAvg            test_ifca, test_auxo, test_cfl (rounds); here (runs)
FlexCFL with one group, no cold start, is FedAvg       test_flexcfl (rounds); here (runs)
Fielding and its variants with one cluster are FedAvg  test_fielding (rounds); here (runs)
tau = inf never groups anew                            coordinator/test_trigger: test_tau_zero_fires..; test_simple:
                                                       test_a_variant_is_fielding_with_one_setting_changed
tau = 0 groups anew at every movement                  the same, and test_simple: test_at_every_movement_a_tau_of_zero..
the order of reports changes nothing                   coordinator/test_machine: both_orders_agree; test_oracle;
                                                       simulation/test_repeatability; here (every method that listens)
no reports: static clusters                            test_simple: test_a_variant_is_fielding.. (detector never)
identical clients are one cluster                      coordinator/test_coordinator: test_identical_..; here (run)
the same partition again leaves models alone           coordinator/test_coordinator: test_re_clustering_into_the_same..;
                                                       test_warm_start; federation/test_models: test_the_identity..;
                                                       here (run, with the server's memory)
pairwise: Delta within c and the diameter              coordinator/test_trigger: test_delta_stays_..; test_machine
FlexCFL, original detector: permuted labels            client/drift/test_by_profile: test_labels_that_trade_places..;
                                                       test_flexcfl: test_the_original_detector_is_blind..
FlexCFL, fixed detector: boundary of 0.2               test_flexcfl: test_the_corrected_detector_fires_above..
Auxo: never more invitations than M                    test_auxo: test_every_cohort_gets..; here (run)
Auxo: scores of non-participants stay                  test_auxo: test_only_participants_score_and_move..
FedDrift: every block has one model after merging      test_feddrift: check_blocks; test_feddrift_state
CFL: nested splits partition in global ids             test_cfl: test_two_nested_splits_partition..
Oort: chances sum to one                               federation/selection/test_oort: test_chances_of_..
Oort: percentile within delta and 100                  federation/selection/test_oort: test_the_percentile_stays..
Oort: never an offline client                          here (all selectors)
half the bandwidth doubles communication               simulation/test_clock: test_halving_the_bandwidth..; here (run)
over-commitment 1: duration is the maximum             simulation/test_clock: test_without_over_commitment..; here (run)
moves is fielding until the trigger fires              here
static is fielding if nobody drifts                    here
selected with everybody taking part is near fielding   here
the oracle without drift                               here
=====================================================  ================================================================
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fielding import run
from fielding._typing import ClientId, Counts, Floats, Json
from fielding.client.report import ReportBatch
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.selection import SELECTORS
from fielding.records.run_folder import MEMBERSHIPS
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import Result
from fielding.simulation.hardware import read_availability
from fielding.simulation.reports import SentReports
from tests.rotation import some_of
from tests.simulation.run_cases import Table, small_pool, table, write_availability

STATIC: Table = {"scenario": "static", "share": None}
"""A trace in which nobody drifts."""


def small_run(name: str, options: Table | None = None, *, out: Path | None = None, **sections: Json) -> Result:
    """Return a run of a method; a key of the trace that is None is left out."""
    config = table(method={"name": name, **(options or {})}, **sections)
    trace = config["trace"]
    assert isinstance(trace, dict)
    config["trace"] = {key: value for key, value in trace.items() if value is not None}
    return run(config, out, own=Own(samples=small_pool()), page=False)


def differences(first: Result, second: Result) -> set[str]:
    """Return the names of all figures in which the rounds of two runs differ, and ``models`` if these do."""
    assert len(first.rounds) == len(second.rounds)
    models = [one.checkpoint.models for one in (first, second)]
    rows = zip(first.rounds, second.rounds, strict=True)
    found = {key for one, other in rows for key in {*one, *other} if one.get(key) != other.get(key)}
    same = models[0].shape == models[1].shape and models[0].tobytes() == models[1].tobytes()
    return found if same else found | {"models"}


def column(result: Result, name: str) -> list[float]:
    return [float(value) for row in result.rounds if isinstance(value := row[name], int | float)]


def summed(result: Result, name: str) -> float:
    return sum(column(result, name))


def test_the_table_names_tests_that_there_are() -> None:
    folder = Path(__file__).parents[1]
    modules = {str(path.relative_to(folder).with_suffix("")): path.read_text() for path in folder.rglob("test_*.py")}
    named = set(re.findall(r"[a-z_/]*\btest_\w+", str(__doc__)))

    assert len(named) > 40
    for name in named:
        is_module = any(f"/{module}".endswith(f"/{name}") for module in modules)
        assert is_module or any(f"def {name}" in text for text in modules.values()), name


# ---- one cluster is federated averaging ------------------------------------------------------------------------

ALONE: tuple[tuple[str, Table], ...] = (
    ("ifca", {"k": 1}),
    ("ifca", {"k": 1, "init": "random"}),
    ("ifca", {"k": 1, "init": "shared-backbone", "reassess": "evaluated"}),
    ("auxo", {"split": "original"}),
    ("cfl", {"participation": "sampled"}),
    ("fedac", {"clusters": 1, "mu": 0.0}),
)
REPORTED = {"n_reports", "reclustered", "bytes_up", "client_seconds", "time_s"}
"""Figures in which methods that listen differ from one that does not, however many clusters there are."""


@pytest.fixture(scope="module")
def everybody() -> Result:
    """Return federated averaging."""
    return small_run("global")


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize(("name", "options"), ALONE)
def test_one_cluster_that_nobody_reports_to_is_federated_averaging_to_the_last_byte(
    name: str, options: Table, is_away: bool, tmp_path: Path, everybody: Result
) -> None:
    clock: Table = {"availability": str(write_availability(tmp_path / "away.csv", 12))} if is_away else {}
    average = small_run("global", clock=clock) if is_away else everybody

    assert differences(small_run(name, options, clock=clock), average) == set()
    assert summed(average, "n_straggler") + summed(average, "n_offline") > 0


def test_cfl_in_which_all_train_is_federated_averaging_of_all() -> None:
    of_all = small_run("global", training={"participants": 12})

    assert differences(small_run("cfl", {"participation": "all"}), of_all) == set()


@pytest.mark.parametrize("name", ["fielding", "static", "moves", "always", "selected"])
def test_one_cluster_that_is_reported_to_differs_from_federated_averaging_in_the_reports_alone(
    name: str, everybody: Result
) -> None:
    one = small_run(name, coordinator={"k_max": 1})

    assert {"n_reports", "bytes_up", "time_s"} <= differences(one, everybody) <= REPORTED


def test_flexcfl_of_one_group_without_cold_start_is_federated_averaging(everybody: Result) -> None:
    assert differences(small_run("flexcfl", {"k": 1, "cold_start": False}), everybody) == set()


@pytest.mark.parametrize("name", ["feddrift", "feddrift-eager"])
def test_feddrift_that_sees_no_drift_is_weighted_averaging_of_all(name: str) -> None:
    one = small_run(name, {"delta": 1.0, "memory": "window"})
    of_all = small_run("global", training={"participants": 12, "weighted": True})

    # The tests of new blocks tell an accuracy each; the model that they need is the one of the round.
    assert differences(one, of_all) == {"bytes_up", "client_seconds", "time_s"}
    assert summed(one, "bytes_up") - summed(of_all, "bytes_up") == 4 * 12 * 3


@pytest.mark.parametrize(("rule", "scale"), [("fedadam", 1.0), ("fedyogi", 0.5)])
def test_a_server_optimizer_without_moments_and_with_a_large_tau_makes_scaled_steps_of_federated_averaging(
    rule: str, scale: float, everybody: Result
) -> None:
    tau = 1e4
    optimizer: Table = {"name": rule, "beta1": 0.0, "beta2": 0.0, "tau": tau}

    # Yogi's v begins at the square of tau and takes off next to nothing: its root is another tau.
    whole = small_run("global", aggregation={**optimizer, "eta": tau / scale}, evaluation={"every": 1})
    assert np.allclose(whole.checkpoint.models, everybody.checkpoint.models, atol=1e-3)
    start, third, step = (
        small_run("global", aggregation={**optimizer, "eta": tau / scale * share}, rounds=1).checkpoint.models
        for share in (1e-12, 1.0 / 3.0, 1.0)
    )
    assert np.abs(step - start).max() > 0.01
    assert np.allclose(third - start, (step - start) / 3.0, atol=1e-5)


# ---- identical clients, equal partitions -----------------------------------------------------------------------


def all_alike(x: Floats, y: Counts, n_classes: int) -> Floats:
    return np.array([0.5, -0.5])


def test_clients_that_are_alike_are_one_cluster_and_train_as_one(everybody: Result) -> None:
    coordinator: Table = {"detector": "periodic", "rounds": 3, "metric": "l2", "trigger": "always"}
    fielding = run(table(coordinator=coordinator), own=Own(samples=small_pool(), represent=all_alike))

    assert sum(column(fielding, "reclustered")) == 3
    assert {"n_reports", "bytes_up", "time_s"} <= differences(fielding, everybody) <= REPORTED


@pytest.mark.parametrize("rule", ["mean", "fedyogi"])
def test_grouping_anew_into_the_same_clusters_leaves_models_and_memory_as_they_were(rule: str) -> None:
    trace: Table = {**STATIC, "concepts": 2, "alpha": 0.05}
    periodic: Table = {"detector": "periodic", "rounds": 3}
    always, moves = (
        small_run(name, trace=trace, coordinator=periodic, aggregation={"name": rule}) for name in ("always", "moves")
    )

    assert 0 < summed(always, "n_clusters") == summed(moves, "n_clusters")
    assert summed(always, "reclustered") == sum(bool(row["n_reports"]) for row in always.rounds[1:]) > 0
    assert always.checkpoint.models.shape[0] == 2
    assert differences(always, moves) == {"reclustered"}
    for name, array in moves.checkpoint.arrays.items():
        if name.startswith("method/memory/"):
            assert array.tobytes() == always.checkpoint.arrays[name].tobytes()


# ---- fielding and its variants ---------------------------------------------------------------------------------


def test_moves_is_fielding_until_the_trigger_fires() -> None:
    coordinator: Table = {"tau": 0.29}  # too much for the first event, not for the second
    fielding, moves = (small_run(name, coordinator=coordinator) for name in ("fielding", "moves"))
    fired = [bool(row["reclustered"]) for row in fielding.rounds]

    first = fired.index(True, 1)
    assert sum(int(str(row["n_moved"])) for row in fielding.rounds[:first]) > 0
    assert fielding.rounds[:first] == moves.rounds[:first]
    assert fielding.rounds[first] != moves.rounds[first]


def test_static_is_fielding_if_nobody_drifts() -> None:
    fielding, static = (
        small_run(name, trace=STATIC, coordinator={"detector": "chi2"}) for name in ("fielding", "static")
    )

    assert summed(fielding, "n_reports") == 12
    assert fielding.checkpoint.models.shape[0] > 1
    assert differences(fielding, static) == set()


def test_selected_with_everybody_taking_part_finds_the_clusters_of_fielding_and_learns_as_much(tmp_path: Path) -> None:
    training: Table = {"participants": 12}
    runs = {
        name: small_run(name, training=training, trace={"samples": 40}, evaluation={"every": 1}, out=tmp_path / name)
        for name in ("fielding", "selected")
    }

    clusters = [(folder / MEMBERSHIPS).read_bytes() for folder in (tmp_path / "fielding", tmp_path / "selected")]
    assert clusters[0] == clusters[1]
    assert clusters[0].count(b"\n") > 3
    for name in ("n_reports", "n_moved", "n_clusters", "reclustered"):
        assert [row[name] for row in runs["fielding"].rounds] == [row[name] for row in runs["selected"].rounds]
    one, other = (np.array(result.column("accuracy")[1]) for result in runs.values())
    assert abs(one.mean() - other.mean()) < 0.05


def test_without_drift_the_oracle_never_moves_anybody_and_agrees_throughout() -> None:
    oracle = small_run("oracle", trace={**STATIC, "concepts": 3})

    assert set(oracle.column("ari")[1]) == {1.0}
    assert summed(oracle, "n_moved") == 0
    assert {row["n_clusters"] for row in oracle.rounds} == {3}


def test_the_oracle_of_one_concept_is_federated_averaging_to_the_last_byte() -> None:
    oracle, average = (small_run(name, trace={**STATIC, "concepts": 1}) for name in ("oracle", "global"))

    assert differences(oracle, average) == set()


# ---- reports ---------------------------------------------------------------------------------------------------

LISTENING: tuple[tuple[str, str, Table], ...] = (
    ("fielding", "uniform", {}),
    ("fielding", "nearest", {}),
    ("always", "uniform", {}),
    ("moves", "nearest", {}),
    ("static", "uniform", {}),
    ("selected", "nearest", {}),
    ("ifca", "uniform", {"reassess": "drifted"}),
    ("flexcfl", "nearest", {"k": 3, "pretrain_steps": 2, "detector": "original"}),
    ("feddrift", "uniform", {"delta": 0.01, "participation": "sampled"}),
)


@pytest.mark.parametrize(("name", "selection", "options"), some_of(LISTENING, 4))
def test_the_order_in_which_reports_come_changes_nothing(
    name: str, selection: str, options: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order = small_run(name, options, selection={"name": selection})
    batch = SentReports.batch

    def turned_around(self: SentReports, client_ids: Sequence[ClientId]) -> ReportBatch:
        reports = batch(self, client_ids)
        return ReportBatch(client_ids=reports.client_ids[::-1], representations=reports.representations[::-1])

    monkeypatch.setattr(SentReports, "batch", turned_around)
    turned = small_run(name, options, selection={"name": selection})

    assert summed(turned, "n_reports") > 0
    assert differences(in_order, turned) == set()


# ---- who is asked, and how long it takes -----------------------------------------------------------------------


@pytest.mark.parametrize("overcommit", [1.0, 1.3])
def test_auxo_never_invites_more_than_were_asked_for_over_all_cohorts(overcommit: float) -> None:
    options: Table = {"split": "forced", "forced_rounds": [2, 4], "epsilon": 0.5, "min_results": 2}
    result = small_run("auxo", options, training={"participants": 7}, clock={"overcommit": overcommit})

    assert result.checkpoint.models.shape[0] > 2
    assert max(int(str(row["n_asked"])) for row in result.rounds) <= int(7 * overcommit)
    assert max(int(str(row["n_participants"])) for row in result.rounds) <= 7


@pytest.mark.parametrize("name", ["global", "fielding"])
@pytest.mark.parametrize("selection", SELECTORS)
def test_nobody_who_is_offline_is_ever_chosen(
    name: str, selection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, n_away = write_availability(tmp_path / "away.csv", 12), []
    train, availability = SimulatedClients.train, read_availability(path, range(12))

    def watched(self: SimulatedClients, plan: TrainingPlan) -> Updates:
        is_there = availability.available(np.arange(12), self.now_s)
        assert is_there[plan.clients].all()
        n_away.append(int((~is_there).sum()))
        return train(self, plan)

    monkeypatch.setattr(SimulatedClients, "train", watched)
    small_run(name, selection={"name": selection}, clock={"availability": str(path)})

    assert sum(n_away) > len(n_away)


def clock_of(folder: Path, ms: Sequence[float], kbps: float) -> Table:
    """Return the clock of devices with these speeds, and nobody who is asked in vain."""
    path = folder / f"devices-{kbps}.csv"
    path.write_text("\n".join(["ms_per_sample,kbps", *[f"{one},{kbps}" for one in ms]]) + "\n")
    return {"profile": str(path), "overcommit": 1.0}


def test_half_the_bandwidth_doubles_the_time_of_communication(tmp_path: Path) -> None:
    fast, slow = (small_run("global", clock=clock_of(tmp_path, [1.0], kbps)) for kbps in (64.0, 32.0))
    computing_s = summed(fast, "n_asked") * 3 * 2 * 5 * 1.0 / 1000.0

    sent_s = summed(fast, "client_seconds") - computing_s
    assert sent_s == pytest.approx((summed(fast, "bytes_down") + summed(fast, "bytes_up")) / 128.0 / 64.0)
    assert summed(slow, "client_seconds") - computing_s == pytest.approx(2.0 * sent_s)


def test_without_over_commitment_a_round_lasts_as_long_as_its_slowest_participant(tmp_path: Path) -> None:
    clock = clock_of(tmp_path, [10.0 * (client + 1) for client in range(12)], 1e9)
    result = small_run("global", clock=clock, training={"participants": 12}, rounds=3)

    # 2 steps of 5 samples at three passes of 120 ms.
    assert column(result, "time_s") == pytest.approx([3.6, 7.2, 10.8])
