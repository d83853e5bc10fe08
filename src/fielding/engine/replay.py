"""Feed a recorded stream of reports to a coordinator and write down what it does."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from fielding.client.report import ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.policy import Json
from fielding.records.replay_folder import ReplayFolder, ReplayRow
from fielding.rng import stream

COMMIT_EVERY_S = 30.0
"""Wall-clock seconds of work that a crash may cost."""


def replay_row(coordinator: Coordinator, decision: Decision) -> ReplayRow:
    """Measure the clusters after a decision and return the line of the log."""
    registry = coordinator.registry
    points, rows = registry.active_points(), registry.active_rows()
    measured = [
        mean_client_distance(
            points,
            membership,
            metric=coordinator.metric,
            rng=stream(coordinator.policy.seed, "heterogeneity", coordinator.n_events),
        )
        for membership in (registry.membership[rows], np.zeros(rows.size, dtype=np.int32))
    ]
    sizes = Counter(coordinator.cluster_ids()[rows].tolist())
    return ReplayRow(
        step=decision.step,
        n_reports=len(decision.reported),
        n_moved=len(decision.moved),
        shift=decision.shift,
        theta=decision.theta,
        reclustered=decision.reclustered,
        n_clusters=decision.n_live,
        mean_client_distance=_or_none(measured[0].mean),
        mean_distance_unclustered=_or_none(measured[1].mean),
        threshold=_or_none(decision.threshold),
        started=decision.started,
        n_joined=len(decision.joined),
        n_silenced=len(decision.silenced),
        n_clients=len(registry),
        n_active=int(rows.size),
        n_dormant=len(decision.cluster_ids) - decision.n_live,
        n_singletons=measured[0].n_singletons,
        cluster_sizes={cluster: sizes[cluster] for cluster in sorted(sizes)},
        silhouettes=decision.silhouettes,
    )


def replay(
    steps: Iterable[tuple[int, ReportBatch]],
    coordinator: Coordinator,
    folder: ReplayFolder,
    *,
    after: int | None = None,
    goes_on: Callable[[ReplayRow], bool] = lambda _row: True,
) -> bool:
    """Replay the steps into a folder.

    Parameters
    ----------
    steps
        Reports by rising step; the first step is START.
    coordinator
        New, or as it was after step ``after``.
    folder
        Where everything is written; committed at the end, and every half minute on the way.
    after
        Skip the steps up to this one: they were replayed before.
    goes_on
        Called after each step with its line; a False stops the replay there, committed and ready to resume.

    Returns
    -------
    Whether all steps were replayed.
    """
    committed = time.monotonic()
    for step, batch in steps:
        if after is not None and step <= after:
            continue
        decision = coordinator.update(batch, step=step)
        row = replay_row(coordinator, decision)
        folder.append(row, decision, coordinator.cluster_ids())
        if not goes_on(row):
            folder.commit(coordinator)
            return False
        if time.monotonic() - committed > COMMIT_EVERY_S:
            folder.commit(coordinator)
            committed = time.monotonic()
    folder.finish(coordinator, replay_summary(folder.rows()))
    return True


def replay_summary(rows: list[dict[str, Json]]) -> dict[str, Json]:
    """Return the totals of a replay: reports, moves, re-clusterings, mean distances over the steps."""
    return {
        "n_steps": len(rows),
        "n_clients": rows[-1]["n_clients"] if rows else 0,
        "n_reports": _total(rows, "n_reports"),
        "n_moves": _total(rows, "n_moved"),
        "n_reclusterings": _total(rows, "reclustered"),
        "n_clusters_last": rows[-1]["n_clusters"] if rows else 0,
        "mean_client_distance": _mean(rows, "mean_client_distance"),
        "mean_distance_unclustered": _mean(rows, "mean_distance_unclustered"),
    }


def _total(rows: list[dict[str, Json]], name: str) -> int:
    return sum(value for row in rows if isinstance(value := row[name], int))


def _mean(rows: list[dict[str, Json]], name: str) -> float | None:
    values = [value for row in rows if isinstance(value := row[name], float)]
    return float(np.mean(values)) if values else None


def _or_none(value: float | None) -> float | None:
    """Return the number, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None
