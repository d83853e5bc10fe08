"""Any selection, any aggregation and any pace work with any method: whole runs in which every pair of them meets.

All of these runs are slow tests; per change one run of each method is made, another one whenever the source changes
(``FIELDING_ROTATION_SEED`` asks for a certain sample).
"""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from fielding import run
from fielding._typing import Matrix, Membership
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.federation.aggregation import AGGREGATORS
from fielding.federation.clients import Clients
from fielding.federation.pace import PACES
from fielding.federation.selection import SELECTORS
from fielding.methods import METHODS
from fielding.methods.fielding import Fielding
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result
from tests.rotation import seed, some_of
from tests.simulation.run_cases import Table, left_behind, small_pool, stop_and_resume, table

N_ROUNDS, N_CLIENTS, M = 6, 12, 8
BUSY: dict[str, Table] = {
    "fielding": {},
    "ifca": {"k": 2, "init": "random", "reassess": "drifted"},
    "feddrift": {"delta": 0.01},
    "feddrift-eager": {"delta": 0.01, "train_all": True},
    "auxo": {"split": "forced", "forced_rounds": [1, 3], "epsilon": 0.5, "min_results": 2},
    "fedac": {"clusters": 2, "pca_every": 2, "tune_every": 2},
    "flexcfl": {"k": 3, "pretrain_steps": 2, "anchor": "global", "eta_g": 0.1},
    "cfl": {"start_after": 1, "eps1": 1000.0, "eps2": 1e-6, "gamma_max": 0.0},
}
"""Options with which methods do in a few rounds what they are there for."""
CASES: dict[str, Table] = {
    **{name: {"name": name, **BUSY.get(name, {})} for name in METHODS},
    "feddrift, sampled": {"name": "feddrift", **BUSY["feddrift"], "participation": "sampled"},
    "cfl, sampled": {"name": "cfl", **BUSY["cfl"], "participation": "sampled"},
}
FACTORS = (tuple(CASES), tuple(AGGREGATORS), tuple(SELECTORS), tuple(PACES))
UNBUDGETED = ("local", "feddrift", "feddrift-eager", "cfl", "feddrift, sampled")
"""Methods in which everybody trains, or participants train several models."""
ONE_MODEL = ("global", "flash")


def pairs_of(row: Sequence[str]) -> set[tuple[int, str, int, str]]:
    """Return the pairs of values that meet in a row."""
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


def covering_rows(factors: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield rows in which every pair of values of two factors meets; each meets as many new pairs as it can."""
    missing = {
        (i, one, j, other)
        for i, j in combinations(range(len(factors)), 2)
        for one, other in product(factors[i], factors[j])
    }
    while missing:
        i, one, j, other = min(missing)
        fixed = {i: one, j: other}
        choices = product(*[(fixed[at],) if at in fixed else values for at, values in enumerate(factors)])
        best = max(choices, key=lambda row: len(pairs_of(row) & missing))
        missing -= pairs_of(best)
        yield best


ROWS = list(covering_rows(FACTORS))


def sample(rows: Sequence[tuple[str, ...]], seed: str) -> list[tuple[str, ...]]:
    """Return one row for each first value, the method, in the order of rows."""
    rng = random.Random(seed)
    by_method: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        by_method.setdefault(row[0], []).append(row)
    return [rng.choice(of_method) for of_method in by_method.values()]


def config_of(row: Sequence[str], training: Table | None = None) -> Table:
    """Return a short run of a method with other parts."""
    case, aggregation, selection, pace = row
    return table(
        rounds=N_ROUNDS,
        trace={"gap": 2, "window": 4},
        method=CASES[case],
        aggregation={"name": aggregation},
        selection={"name": selection},
        pace={"name": pace},
        training=training or {},
        evaluation={"every": 3},
    )


def numbers(result: Result, name: str) -> list[int]:
    return [int(str(row[name])) for row in result.rounds]


# ---- every pair ------------------------------------------------------------------------------------------------


def test_every_pair_of_parts_meets_in_few_runs() -> None:
    met = {pair for row in ROWS for pair in pairs_of(row)}

    assert len(met) == sum(len(one) * len(other) for one, other in combinations(FACTORS, 2))
    assert len(ROWS) <= 1.2 * len(CASES) * len(AGGREGATORS)
    assert list(covering_rows(FACTORS)) == ROWS


def test_the_sample_has_a_run_of_each_method_rotates_and_follows_from_its_seed() -> None:
    samples = [sample(ROWS, str(number)) for number in range(40)]

    assert all(sorted(row[0] for row in rows) == sorted(CASES) for rows in samples)
    assert sample(ROWS, "7") == samples[7]
    assert len({row for rows in samples for row in rows}) > 0.9 * len(ROWS)


@pytest.mark.parametrize("row", sample(ROWS, seed()), ids="/".join)
def test_parts_work_together(row: tuple[str, ...]) -> None:
    check_run(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids="/".join)
def test_all_parts_work_together(row: tuple[str, ...]) -> None:
    check_run(row)


def check_run(row: tuple[str, ...]) -> None:
    """Run a combination, and hold what it leaves against what holds for all of them."""
    result = run(config_of(row), own=Own(samples=small_pool()))

    assert result.summary is not None
    assert len(result.rounds) == N_ROUNDS
    assert min(numbers(result, "n_participants")) > 0
    checkpoint, case = result.checkpoint, row[0]
    assert checkpoint.membership.max() < len(checkpoint.models)
    assert all(np.isfinite(row["accuracy"]) for row in result.rounds if "accuracy" in row)  # type: ignore[arg-type]
    if case not in UNBUDGETED:
        assert max(numbers(result, "n_participants")) <= M
    for name, array in checkpoint.arrays.items():
        if name.startswith(("method/memory/", "method/pace/")):
            assert len(array) == len(checkpoint.models), name
        if name.startswith("method/") or name == "models":
            assert np.isfinite(array.astype(np.float64)).all(), name
    assert np.isfinite(checkpoint.models).all()


@pytest.mark.parametrize("case", some_of([name for name in CASES if name not in ONE_MODEL], 6))
def test_methods_are_at_work_in_these_runs(case: str) -> None:
    result = run(config_of((case, "mean", "uniform", "steady")), own=Own(samples=small_pool()))

    assert max(numbers(result, "n_clusters")) > 1


def resumed_rows() -> list[tuple[str, ...]]:
    """Return a row for each method, with as many parts as possible that no method before it has."""
    rows: list[tuple[str, ...]] = []
    for case in CASES:
        seen = {value for row in rows for value in row}
        rows.append(max((row for row in ROWS if row[0] == case), key=lambda row: len({*row} - seen)))
    return rows


@pytest.mark.parametrize("row", some_of([(row,) for row in resumed_rows()], 6), ids="/".join)
def test_a_run_stopped_in_the_middle_ends_as_one_never_stopped(row: tuple[str, ...], tmp_path: Path) -> None:
    config, own = config_of(row), Own(samples=small_pool())
    run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "resumed", [3], own)

    assert left_behind(tmp_path / "resumed") == left_behind(tmp_path / "whole")


def test_all_parts_are_among_those_that_are_resumed() -> None:
    rows = resumed_rows()

    assert [set(column) for column in zip(*rows, strict=True)] == [set(values) for values in FACTORS]


# ---- what is remembered goes through a re-clustering (METHODS.md A18) --------------------------------------------


State = dict[str, np.ndarray]


def state_of(method: Fielding) -> State:
    """Return what server, pace and selection remember."""
    selection = {f"selection/{name}": array for name, array in method._parts.selection.arrays().items()}
    return {name: np.array(array) for name, array in {**method._cluster_models.arrays(), **selection}.items()}


def after_moves(method: Fielding, reports: ReportBatch) -> Membership:
    """Return the clusters after each who reported joined the nearest center, before all are grouped anew."""
    clusters, members = method.coordinator.clusters, method.membership()
    assert clusters is not None
    centers = np.where(clusters.live[:, np.newaxis], clusters.centers, np.inf)
    for client, told in zip(reports.client_ids, reports.representations, strict=True):
        members[int(client)] = np.abs(told - centers).sum(axis=1).argmin()
    return members


def head_counts(before: Membership, after: Membership, n_before: int) -> Matrix:
    """Return which share of each new cluster came from which old one."""
    counts = np.zeros((after.max() + 1, n_before))
    np.add.at(counts, (after, before), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def test_memory_is_mixed_by_head_count_and_selector_and_pace_go_on_like_the_largest_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[tuple[Matrix, State, State]] = []
    adapt = Fielding.adapt

    def watched(self: Fielding, reports: ReportBatch, clients: Clients) -> Decision | None:
        has_begun = self.coordinator.clusters is not None
        members, before = after_moves(self, reports) if has_begun else self.membership(), state_of(self)
        decision = adapt(self, reports, clients)
        if decision is not None and decision.reclustered:
            shares = head_counts(members, self.membership(), len(before["models"]))
            events.append((shares, before, state_of(self)))
        return decision

    monkeypatch.setattr(Fielding, "adapt", watched)
    config = config_of(("always", "fedyogi", "oort", "adaptive"), training={"participants": 12})
    run({**config, "rounds": 12, "selection": {"name": "oort", "pacer_rounds": 3}}, own=Own(samples=small_pool()))

    assert sum(bool(((shares > 0.0) & (shares < 1.0)).any()) for shares, _, _ in events) >= 2
    assert any(np.unique(before["selection/cluster/utility_now"]).size > 1 for _, before, _ in events)
    for shares, before, after in events:
        check_state(shares, before, after)


def check_state(shares: Matrix, before: State, after: State) -> None:
    """Hold every remembered array against its rule."""
    parents = shares.argmax(axis=1)
    mixed = {"models", "memory/m", "memory/v", "pace/mean"}
    for name, array in before.items():
        if name in mixed:
            assert np.allclose(after[name], shares @ array, rtol=1e-4, atol=1e-7), name
        elif name.startswith("selection/client/"):
            assert np.array_equal(after[name], array, equal_nan=True), name
        elif name == "usual":  # the length of changes: of parents that have learned
            known = shares @ (array > 0.0)
            assert np.allclose(after[name] * known, shares @ array, rtol=1e-4), name
        else:
            assert name.startswith(("pace/", "selection/cluster/")), name
            assert np.array_equal(after[name], array[parents]), name
    assert mixed <= before.keys() == after.keys()


# ---- selection by representations ------------------------------------------------------------------------------

SILENT: dict[str, Table] = {
    "global": {"name": "global"},
    "flash": {"name": "flash"},
    "oracle": {"name": "oracle"},
    "ifca": {"name": "ifca", "k": 2, "init": "random"},
    "auxo": CASES["auxo"],
    "fedac": CASES["fedac"],
    "cfl": CASES["cfl, sampled"],
    "feddrift": CASES["feddrift"],
}
FLAGGED: dict[str, Table] = {
    "flexcfl": CASES["flexcfl"],
    "ifca, drifted": CASES["ifca"],
    "feddrift": CASES["feddrift, sampled"],
}


def chosen_by(method: Table, **selection: str | float) -> Result:
    config = config_of(("global", "mean", "uniform", "steady"))
    return run({**config, "method": method, "selection": {**selection}}, own=Own(samples=small_pool()))


def report_bytes(result: Result) -> int:
    return int(result.checkpoint.arrays["ledger/report.up_bytes"].sum())


@pytest.mark.parametrize("name", SILENT)
def test_nearest_makes_clients_report_and_pay_although_the_method_does_not_listen(name: str) -> None:
    uniform, nearest = chosen_by(SILENT[name], name="uniform"), chosen_by(SILENT[name], name="nearest", pool=1.0)

    n_reports = sum(numbers(nearest, "n_reports"))
    assert n_reports > N_CLIENTS
    assert (report_bytes(uniform), report_bytes(nearest)) == (0, n_reports * 4 * 4)
    # A pool of one is uniform: what the method was not told of has changed nothing else.
    check_same(uniform, nearest)


@pytest.mark.parametrize("name", FLAGGED)
def test_nearest_makes_clients_that_send_flags_send_histograms(name: str) -> None:
    uniform, nearest = chosen_by(FLAGGED[name], name="uniform"), chosen_by(FLAGGED[name], name="nearest", pool=1.0)

    n_reports = sum(numbers(uniform, "n_reports"))
    assert n_reports >= N_CLIENTS
    assert (report_bytes(uniform), report_bytes(nearest)) == (n_reports * 4, n_reports * 4 * 4)
    check_same(uniform, nearest)


def check_same(one: Result, other: Result) -> None:
    assert one.checkpoint.models.tobytes() == other.checkpoint.models.tobytes()
    assert one.checkpoint.membership.tolist() == other.checkpoint.membership.tolist()


@pytest.mark.parametrize("name", ["fielding", "static", "moves", "always", "selected"])
def test_selection_is_told_whatever_the_coordinator_is_told(name: str) -> None:
    arrays = chosen_by({"name": name}, name="nearest").checkpoint.arrays

    told = arrays["method/coordinator/representations"]
    assert np.array_equal(arrays["selection/representations"], told.astype(np.float32))
