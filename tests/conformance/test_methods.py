"""What holds for every method, named in METHODS or not: whoever writes one runs the same with --check."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from fielding import run
from fielding._typing import Json
from fielding.conformance.method_checks import CHECKS, EMPTY, GONE, GUEST, LATE, LEAVER, N_ROUNDS, WAKING, stage_for
from fielding.methods import METHODS, method_options
from fielding.records.run_folder import EVENTS
from fielding.simulation.experiment import Result
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork, Trained
from tests.rotation import some_of

Options: TypeAlias = dict[str, Json]
BUSY: tuple[tuple[str, Options], ...] = (
    ("ifca", {"k": 2, "init": "shared-backbone", "warm_up": 2, "reassess": "evaluated"}),
    ("ifca", {"k": 3, "init": "random", "reassess": "drifted"}),
    ("feddrift", {"delta": 0.01}),
    ("feddrift", {"delta": 0.01, "participation": "sampled"}),
    ("feddrift-eager", {"delta": 0.01}),
    ("feddrift-eager", {"delta": 0.01, "participation": "sampled", "train_all": True}),
    ("auxo", {"split": "forced", "forced_rounds": [1, 3], "epsilon": 0.5, "min_results": 2}),
    ("fedac", {"clusters": 2, "pca_every": 2, "tune_every": 2}),
    ("flexcfl", {"k": 2, "alpha": 2, "pretrain_steps": 2, "anchor": "global", "eta_g": 0.1}),
    ("flexcfl", {"k": 3, "pretrain_steps": 2, "cache_anchor": True, "detector": "original", "newcomers": "all"}),
    ("cfl", {"start_after": 1, "eps1": 1000.0, "eps2": 1e-6, "gamma_max": 0.0}),
    ("cfl", {"start_after": 1, "eps1": 1000.0, "eps2": 1e-6, "gamma_max": 0.0, "participation": "sampled"}),
    ("fielding", {"guard": True, "reuse": 3}),
    ("clustered-sgd", {"k": 2, "delta": 0.2}),
    ("local", {"budget": "participants"}),
    ("feddrift", {"delta": 0.01, "step_rounds": 3}),
)
"""Variants, and options with which methods do in eight rounds what they are there for."""
CASES: dict[str, tuple[str, Options]] = {name: (name, {}) for name in METHODS} | {
    f"{name}-{at}": (name, options) for at, (name, options) in enumerate(BUSY) if name in METHODS
}

BASE_ONLY = ("global", "oracle", "flash")
"""Methods whose clients send and receive the models that they train, and nothing else."""
REPORTING = ("fielding", "static", "moves", "always", "selected")
"""Methods whose clients send reports, too."""


def staged_run(case: str, folder: Path) -> Result:
    stage = stage_for(*CASES[case], folder)
    return run(stage.table, folder / "run", own=stage.own, page=False)


QUICK = ("honest", "safe from broken answers")
"""Checks that are made of every method per change; of the others, and of options, a sample is."""
TRIED = [(case, check) for case in CASES for check in CHECKS]


@pytest.mark.parametrize(
    ("case", "check"), some_of(TRIED, len(CASES), always=[(name, check) for name in METHODS for check in QUICK])
)
def test_every_method_is(case: str, check: str, tmp_path: Path) -> None:
    CHECKS[check](stage_for(*CASES[case], tmp_path), tmp_path)


PARTS = (
    ("resumable", "oort", "fedyogi"),
    ("honest", "pyramidfl", "q-fedavg"),
    ("calm when nobody answers", "nearest", "fedavgm"),
)


@pytest.mark.parametrize(
    ("name", "check", "selection", "aggregation"), some_of([(name, *part) for name in METHODS for part in PARTS], 17)
)
def test_every_method_works_with_other_parts(
    name: str, check: str, selection: str, aggregation: str, tmp_path: Path
) -> None:
    stage = stage_for(name, {}, tmp_path).changed("selection", name=selection).changed("aggregation", name=aggregation)

    CHECKS[check](stage, tmp_path)


SHARING = ("fielding", "ifca-1", "flexcfl-8", "feddrift-2")


@pytest.mark.parametrize(
    ("case", "check"), some_of([(case, check) for case in SHARING for check in ("resumable", "honest")], 3)
)
def test_clusters_may_share_the_body_of_their_models(case: str, check: str, tmp_path: Path) -> None:
    n_shared = 4 * 5 + 5  # of four inputs and five hidden units
    stage = stage_for(*CASES[case], tmp_path).changed("model", name="mlp", hidden=5)
    stage = stage.changed("aggregation", shared_body=True)

    CHECKS[check](stage, tmp_path)
    models = run(stage.table, tmp_path / "run", own=stage.own, page=False).checkpoint.models

    assert models.shape[0] > 1
    assert (models[:, :n_shared] == models[0, :n_shared]).all()
    assert np.unique(models[:, n_shared:], axis=0).shape[0] > 1


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does_and_what_it_sends(name: str) -> None:
    kind = METHODS[name]

    assert kind.summary
    assert kind.sends
    assert len(kind.summary) < 120
    assert not kind.summary.endswith(".")
    assert all(isinstance(option, str) for option in method_options(kind))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_its_place_in_the_docs(name: str) -> None:
    assert f"`{name}`" in (Path(__file__).parents[2] / "docs" / "methods" / "index.md").read_text()


def test_the_stage_is_worth_it(tmp_path: Path) -> None:
    result = staged_run("fielding", tmp_path)

    assert all(_total(result, f"n_{name}") > 0 for name in ("offline", "straggler", "moved"))
    assert result.checkpoint.models.shape[0] > 1
    assert [result.cluster_of(client) is None for client in (LATE, LEAVER, WAKING, GUEST, EMPTY, GONE)] == [
        *[False] * 4,
        *[True] * 2,
    ]
    silenced = [client for row in _events(tmp_path) for client in _listed(row["silenced"])]
    assert silenced == [LEAVER]


def test_the_guard_asks_on_the_stage_and_says_so(tmp_path: Path) -> None:
    case = next(case for case, (_, options) in CASES.items() if options.get("guard"))
    result = staged_run(case, tmp_path)

    opinions = [row["guard"] for row in _events(tmp_path) if "guard" in row]
    assert opinions
    assert result.checkpoint.arrays["ledger/probe.up_bytes"].sum() > 0
    assert result.checkpoint.arrays["method/guard/waits"].size > 0


@pytest.mark.parametrize("case", some_of(CASES, 11))
def test_every_method_serves_every_client_to_the_end(case: str, tmp_path: Path) -> None:
    result = staged_run(case, tmp_path)

    assert len(result.rounds) == N_ROUNDS
    assert _total(result, "n_participants") > 20
    for client in result.checkpoint.client_ids:
        assert all(np.isfinite(tensor).all() for tensor in result.model_of(client).values())


def _events(folder: Path) -> list[dict[str, Json]]:
    return [json.loads(line) for line in (folder / "run" / EVENTS).read_text().splitlines()]


def _total(result: Result, name: str) -> int:
    return sum(int(str(row[name])) for row in result.rounds)


def paid(result: Result, row: dict[str, Json], width: int) -> tuple[int, int]:
    """Return what a round has to cost where participants get a model and send one: bytes down and up."""
    model = 4 * result.layout.size
    asked, offline, reports = (int(str(row[f"n_{name}"])) for name in ("asked", "offline", "reports"))
    return asked * model, (asked - offline) * model + 4 * width * reports


@pytest.mark.parametrize("name", [*BASE_ONLY, *REPORTING])
def test_traffic_is_that_of_federated_averaging_and_of_the_reports(name: str, tmp_path: Path) -> None:
    result = staged_run(name, tmp_path)

    for row in result.rounds:
        assert (row["bytes_down"], row["bytes_up"]) == paid(result, row, width=4)
        assert row["n_reports"] == 0 or name in REPORTING
    assert _total(result, "n_reports") > 0 or name in BASE_ONLY


def test_alone_there_is_no_traffic(tmp_path: Path) -> None:
    result = staged_run("local", tmp_path)

    assert {(row["bytes_down"], row["bytes_up"]) for row in result.rounds} == {(0, 0)}
    assert all(float(str(row["client_seconds"])) > 0 for row in result.rounds)


@pytest.mark.parametrize("name", METHODS)
def test_broken_answers_are_named_in_the_log(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyTrainer, "train", last_one_broken(NumpyTrainer.train))

    result = staged_run(name, tmp_path)

    failed = [row for row in result.rounds if row["n_failed"]]
    assert failed
    assert all(len(_listed(row["failed"])) == row["n_failed"] for row in failed)
    assert all("failed" not in row for row in result.rounds if not row["n_failed"])
    assert {client for row in failed for client in _listed(row["failed"])} <= set(result.checkpoint.client_ids)
    assert np.isfinite(result.checkpoint.models).all()


Train: TypeAlias = Callable[[NumpyTrainer, LocalWork], Trained]


def last_one_broken(train: Train) -> Train:
    """Return a way to train in which the last participant of a call answers with an infinite number."""

    def broken(trainer: NumpyTrainer, work: LocalWork) -> Trained:
        trained = train(trainer, work)
        trained.models[-1:, -1] = np.inf
        return trained

    return broken


def _listed(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value
