"""What strategies cost beside federated averaging: the cost table of METHODS.md 14, by hand, on whole runs.

Rows that other files prove the same way, category by category: IFCA in test_ifca (test_costs_are_those_of_the_table,
test_drifted_clients_choose_again_at_the_event_and_pay_for_it), FedDrift in test_feddrift (test_costs_..,
test_merging_is_paid_by..), FlexCFL in test_flexcfl (test_the_ledger_holds_what_the_cost_table_says,
test_the_start_asks_no_more..), newcomers of CFL in test_cfl (test_a_newcomer_walks_down..), rehearsal in
simulation/test_rehearsal (test_looks_are_charged_as_forward_passes..). FLUX, FEROMA, FedRC, FedDAA and FedCCFA are not
here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fielding import run
from fielding._typing import Counts, Floats
from fielding.federation.clients import TrainingPlan, Updates
from fielding.runtime.observe import Represent
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import Result
from tests.simulation.run_cases import Table, small_pool, table

R, N, M, L, B, C = 12, 12, 8, 2, 5, 4
HIDDEN, FEATURES = 8, 4
HEAD = 4 * (HIDDEN * C + C)
"""Bytes of the last layer."""
W = 4 * (FEATURES * HIDDEN + HIDDEN) + HEAD
"""Bytes of a model."""
MS, KBPS = 10.0, 1000.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Bytes, and samples that go forward through a model or are trained on."""

    down: float = 0
    up: float = 0
    forward: float = 0
    trained: float = 0

    @property
    def seconds(self) -> float:
        """By METHODS.md 12: training takes three forward passes, a kbit has 128 bytes."""
        return (self.forward + 3 * self.trained) * MS / 1000.0 + (self.down + self.up) / 128.0 / KBPS


NOTHING = Cost()


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Who was asked to train in a call, and how many samples these, and all clients, had at hand."""

    clients: Counts
    n_samples: Counts
    sizes: Counts


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Return who is asked to train, call by call."""
    kept: list[Asked] = []
    train = SimulatedClients.train

    def watched(self: SimulatedClients, plan: TrainingPlan) -> Updates:
        sizes = self.windows.training(self.round_index).sizes
        kept.append(Asked(clients=plan.clients.copy(), n_samples=sizes[plan.clients], sizes=sizes))
        return train(self, plan)

    monkeypatch.setattr(SimulatedClients, "train", watched)
    return kept


def costly_run(
    folder: Path, method: Table, sections: Table | None = None, *, represent: Represent | None = None
) -> Result:
    """Return a run on devices that are all alike, in which nobody is asked in vain."""
    (folder / "devices.csv").write_text(f"ms_per_sample,kbps\n{MS},{KBPS}\n")
    clock: Table = {"profile": str(folder / "devices.csv"), "overcommit": 1.0}
    config = table(method=method, clock=clock, **(sections or {}))
    return run(config, own=Own(samples=small_pool(), represent=represent))


def check(result: Result, expected: Mapping[str, Cost]) -> None:
    """Hold the ledger against what was worked out, category by category, and the log against both."""
    arrays = result.checkpoint.arrays
    for category in ("model", "report", "probe"):
        cost = expected.get(category, NOTHING)
        assert arrays[f"ledger/{category}.down_bytes"].sum() == cost.down, category
        assert arrays[f"ledger/{category}.up_bytes"].sum() == cost.up, category
        assert arrays[f"ledger/{category}.seconds"].sum() == pytest.approx(cost.seconds), category
    for name, wanted in (
        ("bytes_down", sum(cost.down for cost in expected.values())),
        ("bytes_up", sum(cost.up for cost in expected.values())),
        ("client_seconds", sum(cost.seconds for cost in expected.values())),
    ):
        assert sum(float(str(row[name])) for row in result.rounds) == pytest.approx(wanted)


def base(n_jobs: int = R * M) -> Cost:
    """Return what so many participants cost: the model down and up, and L steps of b samples."""
    return Cost(down=n_jobs * W, up=n_jobs * W, trained=n_jobs * L * B)


def summed(result: Result, name: str) -> int:
    return sum(int(str(row[name])) for row in result.rounds)


# ---- nothing is added ------------------------------------------------------------------------------------------

PLAIN: dict[str, Table] = {
    "fedavg": {},
    "fedprox": {"training": {"prox": 0.5}},
    "weighted": {"training": {"weighted": True}},
    "fedavgm": {"aggregation": {"name": "fedavgm"}},
    "fedadam": {"aggregation": {"name": "fedadam"}},
    "fedyogi": {"aggregation": {"name": "fedyogi"}},
    "multi-krum": {"aggregation": {"name": "multi-krum"}},
    "oort": {"selection": {"name": "oort"}},
    "adaptive": {"pace": {"name": "adaptive"}},
    "flash": {"method": {"name": "flash"}},
    "oracle": {"method": {"name": "oracle"}},
    "cfl, sampled": {"method": {"name": "cfl", "participation": "sampled"}},
    "fedac without a pull": {"method": {"name": "fedac", "mu": 0.0, "clusters": 2, "pca_every": 2, "tune_every": 2}},
}


@pytest.mark.parametrize("name", PLAIN)
def test_only_models_and_local_steps_are_paid_for(name: str, tmp_path: Path) -> None:
    sections = dict(PLAIN[name])
    method = sections.pop("method", {"name": "global"})
    assert isinstance(method, dict)

    check(costly_run(tmp_path, method, sections), {"model": base()})


def test_auxo_adds_nothing_whatever_its_cohorts(tmp_path: Path) -> None:
    method: Table = {"name": "auxo", "split": "forced", "forced_rounds": [2, 4], "epsilon": 0.0, "min_results": 2}
    result = costly_run(tmp_path, method)
    n_jobs = summed(result, "n_participants")

    assert result.checkpoint.models.shape[0] > 2
    assert R * M - 2 * R < n_jobs <= R * M  # M // K participants each
    check(result, {"model": base(n_jobs)})


def test_cfl_in_which_all_train_adds_those_who_would_not_have(tmp_path: Path) -> None:
    method: Table = {"name": "cfl", "start_after": 1, "eps1": 1000.0, "eps2": 1e-6, "gamma_max": 0.0}
    result = costly_run(tmp_path, method)

    assert result.checkpoint.models.shape[0] > 1
    check(result, {"model": base(R * M + R * (N - M))})


def test_alone_everybody_computes_and_sends_nothing(tmp_path: Path) -> None:
    check(costly_run(tmp_path, {"name": "local"}), {"model": Cost(trained=R * N * L * B)})


def test_alone_at_equal_compute_as_many_train_as_take_part_elsewhere(tmp_path: Path, calls: list[Asked]) -> None:
    check(costly_run(tmp_path, {"name": "local", "budget": "participants"}), {"model": Cost(trained=R * M * L * B)})

    assert [np.unique(one.clients).size for one in calls] == [M] * R
    assert np.unique(np.concatenate([one.clients for one in calls])).size == N, "all have their turn"


# ---- reports ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fielding", "moves", "always", "selected", "static"])
def test_fielding_adds_a_histogram_for_everyone_who_drifted(name: str, tmp_path: Path) -> None:
    result = costly_run(tmp_path, {"name": name})
    n_drifted = summed(result, "n_reports")

    # All arrive with news every three rounds; only who takes part says so to ``selected``.
    assert {"static": n_drifted == N, "selected": N < n_drifted < 4 * N}.get(name, n_drifted == 4 * N)
    check(result, {"model": base(), "report": Cost(up=n_drifted * 4 * C)})


def mean_features(x: Floats, y: Counts, n_classes: int) -> Floats:
    return np.append(x.mean(axis=0), 1.0)


def test_fielding_by_features_and_the_clock_adds_a_vector_and_a_pass_over_the_window(
    tmp_path: Path, calls: list[Asked]
) -> None:
    coordinator: Table = {"detector": "periodic", "rounds": 6, "metric": "l2"}
    sections: Table = {"coordinator": coordinator, "training": {"participants": N}}
    result = costly_run(tmp_path, {"name": "fielding"}, sections, represent=mean_features)

    # With everybody at work, the calls of rounds 0 and 6 tell how many samples the windows held at the two reports.
    n_passes = sum(int(calls[at].n_samples.sum()) for at in (0, 6))
    assert [row["n_reports"] for row in result.rounds] == [N if at in (0, 6) else 0 for at in range(R)]
    check(result, {"model": base(R * N), "report": Cost(up=2 * N * 4 * (FEATURES + 1), forward=n_passes)})


def test_who_compares_vectors_looks_at_every_window_whether_it_reports_or_not(
    tmp_path: Path, calls: list[Asked]
) -> None:
    coordinator: Table = {"detector": "threshold", "eps": 2.0, "metric": "l2"}
    sections: Table = {"coordinator": coordinator, "training": {"participants": N}}
    result = costly_run(tmp_path, {"name": "fielding"}, sections, represent=mean_features)

    n_passes = sum(int(calls[at].n_samples.sum()) for at in (0, 3, 6, 9))
    n_drifted = summed(result, "n_reports")
    assert N < n_drifted < 4 * N
    check(result, {"model": base(R * N), "report": Cost(up=n_drifted * 4 * (FEATURES + 1), forward=n_passes)})


# ---- more with every model -------------------------------------------------------------------------------------


def test_q_fedavg_adds_a_loss_and_a_pass_over_the_window(tmp_path: Path, calls: list[Asked]) -> None:
    result = costly_run(tmp_path, {"name": "global"}, {"aggregation": {"name": "q-fedavg"}})

    n_passes = sum(int(one.n_samples.sum()) for one in calls)
    wanted = Cost(down=base().down, up=base().up + R * M * 4, trained=base().trained, forward=n_passes)
    check(result, {"model": wanted})


@pytest.mark.parametrize("aggregation", ["mean", "q-fedavg"])
def test_ifca_adds_all_models_and_passes_and_those_of_evaluated_choosers(
    aggregation: str, tmp_path: Path, calls: list[Asked]
) -> None:
    k, every = 3, 4
    result = costly_run(
        tmp_path,
        {"name": "ifca", "k": k, "init": "random"},
        {"aggregation": {"name": aggregation}, "evaluation": {"every": every}},
    )

    # The loss of the model that was chosen is known from the choice; q-FedAvg only has to hear it.
    n_said = 1 if aggregation == "mean" else 2
    n_passes = sum(int(one.n_samples.sum()) for one in calls)
    model = Cost(down=k * R * M * W, up=R * M * (W + 4 * n_said), forward=k * n_passes, trained=R * M * L * B)
    # All clients are evaluated; those that took part in that round have just chosen.
    evaluated = [calls[at] for at in (0, 3, 7, 11)]
    n_chosen = len(evaluated) * (N - M)
    n_probed = sum(int(one.sizes.sum() - one.n_samples.sum()) for one in evaluated)
    check(result, {"model": model, "probe": Cost(down=k * n_chosen * W, up=4 * k * n_chosen, forward=k * n_probed)})


def test_fedac_adds_the_embedding_and_no_computing(tmp_path: Path) -> None:
    method: Table = {"name": "fedac", "mu": 0.1, "clusters": 2, "pca_every": 2, "tune_every": 2}
    result = costly_run(tmp_path, method)

    plain = base()
    check(result, {"model": Cost(down=plain.down + R * M * (W - HEAD), up=plain.up, trained=plain.trained)})


@pytest.mark.parametrize("name", ["global", "fielding"])
def test_moon_adds_two_passes_per_sample_for_whoever_has_trained_before(
    name: str, tmp_path: Path, calls: list[Asked]
) -> None:
    result = costly_run(tmp_path, {"name": name}, {"training": {"moon": 1.0}})

    n_first = np.unique(np.concatenate([one.clients for one in calls])).size
    model = Cost(down=R * M * W, up=R * M * W, trained=R * M * L * B, forward=2 * (R * M - n_first) * L * B)
    check(result, {"model": model, "report": Cost(up=summed(result, "n_reports") * 4 * C)})


def rounded(shares: Sequence[float]) -> int:
    return sum(round(share * W) for share in shares)


def test_pyramidfl_sends_nine_tenths_at_first_and_then_less_of_the_less_useful(tmp_path: Path) -> None:
    sections: Table = {"selection": {"name": "pyramidfl", "beta": 0.0}, "training": {"participants": N}}
    result = costly_run(tmp_path, {"name": "global"}, sections)

    # In every later round all have trained before, and their ranks go from 0 to 11.
    by_rank = [0.4 + 0.5 * rank / (N - 1) for rank in range(N)]
    up = rounded([0.9] * N) + (R - 1) * rounded(by_rank)
    check(result, {"model": Cost(down=R * N * W, up=up, trained=R * N * L * B)})


def test_pyramidfl_lets_fast_clients_do_more_steps(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("ms_per_sample,kbps\n" + "\n".join(["10,1e9", "30,1e9"] * 6) + "\n")
    clock: Table = {"profile": str(tmp_path / "half.csv"), "overcommit": 1.0}
    config = table(
        method={"name": "global"},
        selection={"name": "pyramidfl", "beta": 1.0},
        clock=clock,
        training={"participants": N, "local_steps": 4},
    )
    result = run(config, own=Own(samples=small_pool()))

    # From the second round on the fast half does three times as many steps, less one that hardly does not fit.
    seconds = result.checkpoint.arrays["ledger/model.seconds"]
    usual_s = R * 4 * B * 3 * 0.030
    assert seconds.max() == pytest.approx(usual_s, rel=1e-4)
    assert sorted(seconds)[0] >= usual_s / 3 + (R - 1) * 7 * B * 3 * 0.010 - 1e-6
    assert sorted(seconds)[5] <= usual_s * 1.0001
