"""Small runs and what they leave behind, for tests that compare them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fielding._typing import Json, Membership
from fielding.client.report import id_order
from fielding.records.run_folder import (
    CLIENTS,
    CONCEPTS,
    EVENTS,
    MEMBERSHIPS,
    REPORT_FILES,
    REPORTS,
    ROUNDS,
    newest_checkpoint,
)
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, run
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.traces.trace import Trace

N_ROUNDS = 12
REPEATABLE = (ROUNDS, EVENTS, MEMBERSHIPS, CONCEPTS, CLIENTS, REPORT_FILES, "summary.json", "manifest.json")
Table = dict[str, Json]


def table(**sections: Json) -> Table:
    """Return a run of a dozen rounds with drift every three; sections that are given count more."""
    base: dict[str, Json] = {
        "rounds": N_ROUNDS,
        "workers": 1,
        "trace": {"clients": 12, "gap": 3, "window": 6, "samples": 12, "share": 0.5},
        "training": {"participants": 8, "local_steps": 2, "batch_size": 5, "learning_rate": 0.1},
        "model": {"hidden": 8},
        "coordinator": {"detector": "any-change"},
        "evaluation": {"every": 4},
        "checkpoint": {"every": 1},
    }
    for name, value in sections.items():
        inner = base.get(name)
        base[name] = {**inner, **value} if isinstance(inner, dict) and isinstance(value, dict) else value
    return base


def left_behind(folder: Path) -> dict[str, bytes]:
    """Return all that equal runs must have in common: logs, reports, results and the models at the end."""
    files = [folder / name for name in REPEATABLE]
    files += sorted((folder / REPORTS).iterdir())
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    newest = newest_checkpoint(folder)
    return found | {"last": newest.name.encode(), "models": checkpoint_without_sizes(newest)}


def checkpoint_without_sizes(path: Path) -> bytes:
    """Return the arrays and values of a checkpoint; how long the log of timings was is left out."""
    from fielding.records.container import read_contents

    contents = read_contents(path)
    arrays = {name: array.tobytes() for name, array in contents.arrays.items()}
    return repr((contents.kind, contents.values, arrays)).encode()


def small_pool(n_samples: int = 240, *, seed: int = 0) -> Pool:
    """Return samples of four classes that a small model can learn to tell apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n_samples).astype(np.int32)
    x = (rng.standard_normal((n_samples, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)
    return Pool(x=x, y=y, classes=tuple("abcd"))


def image_pool(n_samples: int = 240, *, seed: int = 0) -> Pool:
    """Return images of four classes, 4 pixels high and wide; each class lights up a quarter."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n_samples).astype(np.int32)
    x = rng.standard_normal((n_samples, 4, 4)).astype(np.float32)
    x[np.arange(n_samples), y] += 2.0
    return Pool(x=x, y=y, classes=tuple("abcd"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of one feature that a client gets in an interval."""

    client: int
    interval: int
    value: float = 1.0
    label: int = 0
    for_testing: bool = False


def planted_windows(
    samples: Sequence[Sample],
    *,
    n_clients: int,
    plan: WindowPlan,
    n_intervals: int,
    concepts: Membership | None = None,
) -> SlidingWindows:
    """Return windows over exactly these samples, two classes."""
    x, y = np.zeros((1000, 1), dtype=np.float32), np.zeros(1000, dtype=np.int32)
    is_test = Pool(x=x, y=y, classes=("a", "b")).is_test()
    free = {for_testing: iter(np.flatnonzero(is_test == for_testing)) for for_testing in (False, True)}
    places = np.array([next(free[sample.for_testing]) for sample in samples])
    x[places, 0] = [sample.value for sample in samples]
    y[places] = [sample.label for sample in samples]
    schedule = sort_schedule(
        tuple(range(n_clients)),
        n_intervals,
        columns=(
            np.array([sample.client for sample in samples]),
            np.array([sample.interval for sample in samples]),
            places,
            y[places],
            np.zeros(len(samples)),
        ),
        concepts=concepts,
    )
    return SlidingWindows(Pool(x=x, y=y, classes=("a", "b")), schedule, plan)


class Crash(BaseException):
    """The process is gone."""


def crashed_after(n_rounds: int) -> Callable[[Mapping[str, Json]], bool]:
    """Return a watch that fails when so many rounds are done, before they can be committed."""

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == n_rounds - 1:
            raise Crash
        return True

    return watch


def crash_and_resume(config: Table, folder: Path, rounds: list[int], own: Own) -> Result:
    """Run a config, failing after each of some rounds and going on, to the end."""
    for n_rounds in rounds:
        with contextlib.suppress(Crash):
            run(config, folder, own=own, start=Start(resume=True), watch=crashed_after(n_rounds), page=False)
    return run(config, folder, own=own, start=Start(resume=True), page=False)


def stopped_after(n_rounds: int) -> Callable[[Mapping[str, Json]], bool]:
    """Return a watch that stops a run when so many rounds are done."""
    return lambda row: row["round"] != n_rounds - 1


def stop_and_resume(config: Table, folder: Path, rounds: list[int], own: Own) -> Result:
    """Run a config, stopping after each of some rounds and going on, to the end."""
    for n_rounds in rounds:
        stopped = run(config, folder, own=own, start=Start(resume=True), watch=stopped_after(n_rounds), page=False)
        assert stopped.summary is None
        assert len(stopped.rounds) == n_rounds
    return run(config, folder, own=own, start=Start(resume=True), page=False)


def small_trace(n_clients: int = 8, n_days: int = 8, *, seed: int = 0) -> Trace:
    """Return a natural trace of two kinds of clients; halfway, one of them goes over to the other kind."""
    rng = np.random.default_rng(seed)
    n_rows = 8 * n_clients * n_days
    client = np.tile(np.arange(n_clients, dtype=np.int32), n_rows // n_clients)
    time = np.sort(rng.uniform(0.0, 86400.0 * n_days, n_rows))
    kind = (client % 2) ^ ((client == 1) & (time > 43200.0 * n_days))
    y = np.where(rng.random(n_rows) < 0.8, kind, 1 - kind) + 2 * (rng.random(n_rows) < 0.1)
    x = (rng.standard_normal((n_rows, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)
    ids = tuple(f"client-{at:02d}" for at in range(n_clients))
    return Trace(client_ids=ids, client=client, time=time, y=y.astype(np.int32), classes=tuple("abcd"), x=x)


def shuffled(trace: Trace, seed: int) -> Trace:
    """Return the same samples of the same clients, rows and clients in another order."""
    rng = np.random.default_rng(seed)
    new_ids = rng.permutation(len(trace.client_ids))
    position = np.argsort(new_ids).astype(np.int32)
    rows = rng.permutation(trace.n_rows)
    return Trace(
        client_ids=tuple(trace.client_ids[at] for at in new_ids.tolist()),
        client=position[trace.client][rows],
        time=trace.time[rows],
        y=trace.y[rows],
        classes=trace.classes,
        x=None if trace.x is None else trace.x[rows],
    )


def clusters_by_id(result: Result) -> list[tuple[int | str, int | None]]:
    """Return the cluster of every client, in the order of ids."""
    ids = result.checkpoint.client_ids
    return [(ids[at], result.cluster_of(ids[at])) for at in id_order(list(ids)).tolist()]


def write_availability(path: Path, n_clients: int) -> Path:
    """Write when clients can be reached: they come and go at different times, and the first comes late."""
    lines = ["client,start_s,stop_s,finish_s"]
    for client in range(n_clients):
        start = 3.0 + client if client % 3 else 9.0
        lines.append(f"{client},{start},{start + 9.0 + client % 4},{24.0 + client}")
    path.write_text("\n".join(lines) + "\n")
    return path
