"""Folders of runs of any size, written as a run would write them but without training: numbers that drift and jump."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fielding._typing import ClientId, Counts, Json, Matrix
from fielding.client.report import ReportBatch
from fielding.records.report_file import write_reports
from fielding.traces.reports import gather_reports

N_LABELS, N_CONCEPTS = 10, 4
GAP, EVALUATED = 20, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a run is, and what its parts are called.

    Parameters
    ----------
    n_clients, n_rounds
        Its size.
    method, seed
        For the manifest.
    name
        Makes the id of a client of its number.
    label
        Makes the name of a class of its number.
    finished
        Whether there is a ``summary.json``.
    """

    n_clients: int
    n_rounds: int
    method: str = "fielding"
    seed: int = 1
    name: Callable[[int], ClientId] = int
    label: Callable[[int], str] = "label {}".format
    finished: bool = True

    @property
    def ids(self) -> list[ClientId]:
        """The ids of all clients."""
        return [self.name(at) for at in range(self.n_clients)]


def big_folder(folder: Path, shape: Shape) -> Path:
    """Write the folder of a run: every ``GAP`` rounds a tenth of the clients drift, report and move."""
    (folder / "reports").mkdir(parents=True)
    _write_manifest(folder, shape)
    draws = np.random.default_rng(shape.seed)
    mixes = draws.dirichlet(np.full(N_LABELS, 0.5), size=N_CONCEPTS)
    concept = draws.integers(0, N_CONCEPTS, shape.n_clients)
    logs: dict[str, list[str]] = {name: [] for name in ("rounds", "events", "memberships", "concepts", "clients")}
    for at in range(shape.n_rounds):
        changed = np.arange(shape.n_clients, dtype=np.int64) if at == 0 else np.empty(0, dtype=np.int64)
        if at and at % GAP == 0:
            changed = np.sort(draws.choice(shape.n_clients, max(1, shape.n_clients // 10), replace=False))
            concept[changed] = draws.integers(0, N_CONCEPTS, changed.size)
        if changed.size:
            _write_event(shape, logs, at=at, changed=changed, concept=concept)
            _write_report(folder, shape, at=at, changed=changed, rows=_shares(draws, mixes[concept[changed]]))
        logs["rounds"].append(json.dumps(_round(at, changed.size, draws)))
        if at % EVALUATED == EVALUATED - 1:
            logs["clients"].append(json.dumps(_tests(shape, at, concept, draws)))
    logs["timings"] = [json.dumps({"round": at, "train": 0.1, "whole": 0.2}) for at in range(shape.n_rounds)]
    for name, lines in logs.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def _write_manifest(folder: Path, shape: Shape) -> None:
    config: dict[str, Json] = {
        "seed": shape.seed,
        "rounds": shape.n_rounds,
        "trace": {"name": "made", "scenario": "places", "clients": shape.n_clients, "gap": GAP, "window": 2 * GAP},
        "method": {"name": shape.method},
        "coordinator": {"representation": "label", "tau": 1 / 3},
        "evaluation": {"every": EVALUATED},
    }
    manifest: Mapping[str, Json] = {
        "fielding": "0",
        "seed": shape.seed,
        "classes": [shape.label(at) for at in range(N_LABELS)],
        "config": config,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if shape.finished:
        (folder / "summary.json").write_text(json.dumps({"method": shape.method, "stopped_by": "rounds"}))


def _round(at: int, n_reports: int, draws: np.random.Generator) -> dict[str, Json]:
    row: dict[str, Json] = {
        "round": at, "time_s": 60.0 * (at + 1), "n_reports": n_reports, "n_moved": n_reports if at else 0,
        "reclustered": bool(at and at % (5 * GAP) == 0), "n_clusters": N_CONCEPTS, "n_asked": 40, "n_participants": 38,
        "n_straggler": 2, "n_offline": 0, "n_refused": 0, "n_failed": 0, "train_loss": 1.0 / (1 + at),
        "bytes_down": 100_000, "bytes_up": 90_000, "client_seconds": 50.0,
    }  # fmt: skip
    if at % EVALUATED == EVALUATED - 1:
        accuracy = 0.9 - 0.6 / (1 + at / 40) + draws.normal(0, 0.01)
        row |= {
            "accuracy": accuracy, "accuracy_weighted": accuracy, "worst_decile": accuracy / 2,
            "test_loss": 1 - accuracy, "n_tested": 40, "ari": 0.8, "measured_heterogeneity": 0.4,
            "unclustered_heterogeneity": 0.9,
        }  # fmt: skip
    return row


def _write_event(shape: Shape, logs: Mapping[str, list[str]], *, at: int, changed: Counts, concept: Counts) -> None:
    who: Json = [shape.name(one) for one in changed.tolist()]
    pairs: Json = [[shape.name(one), int(concept[one])] for one in changed.tolist()]
    fired = bool(at and at % (5 * GAP) == 0)
    event: Mapping[str, Json] = {
        "round": at, "shift": 0.2 if at else None, "theta": 1.0, "threshold": 0.33 if at else None, "started": at == 0,
        "fired": fired, "n_clusters": N_CONCEPTS, "cluster_ids": list(range(N_CONCEPTS)), "mean_client_distance": 0.4,
        "silhouettes": {"3": 0.4, "4": 0.6} if fired else {}, "reported": who, "moved": who if at else [],
        "joined": [] if at else who, "silenced": [],
    }  # fmt: skip
    logs["events"].append(json.dumps(event))
    for name in ("memberships", "concepts"):
        logs[name].append(json.dumps({"round": at, "changed": pairs}))


def _write_report(folder: Path, shape: Shape, *, at: int, changed: Counts, rows: Matrix) -> None:
    batch = ReportBatch(client_ids=[shape.name(one) for one in changed.tolist()], representations=rows)
    write_reports(gather_reports([(at, batch)], kind="histogram"), folder / "reports" / f"{at:08d}.npz")


def _shares(draws: np.random.Generator, mixes: Matrix) -> Matrix:
    counts = draws.multinomial(40, mixes).astype(np.float64)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)


def _tests(shape: Shape, at: int, concept: Counts, draws: np.random.Generator) -> dict[str, Json]:
    chance = 0.9 - 0.6 / (1 + at / 40)
    return {
        "round": at,
        "client": list(shape.ids),
        "cluster": concept.tolist(),
        "n_test": [20] * shape.n_clients,
        "correct": draws.binomial(20, chance, shape.n_clients).tolist(),
        "loss": [0.5] * shape.n_clients,
    }
