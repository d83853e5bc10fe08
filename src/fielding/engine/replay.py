"""Feed a recorded stream of reports to a coordinator and write down what it does."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fielding._typing import Json
from fielding._version import __version__
from fielding.client.report import ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.policy import Policy, policy_record
from fielding.errors import InputError
from fielding.records.replay_folder import LOGS, ReplayFolder, ReplayRow
from fielding.records.run_folder import read_manifest
from fielding.reporting.replay_page import replay_page
from fielding.rng import stream
from fielding.traces.reports import ReportStream

COMMIT_EVERY_S = 30.0  # wall-clock seconds of work that a crash may cost, and the step in hand

Watch: TypeAlias = Callable[[ReplayRow | None], object]
"""Called after each step with its line, with None for a step that was replayed before; False stops the replay."""


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
        is_sampled=measured[0].is_sampled or measured[1].is_sampled,
        cluster_sizes={cluster: sizes[cluster] for cluster in sorted(sizes)},
        silhouettes=decision.silhouettes,
    )


def run_replay(
    reports: ReportStream,
    policy: Policy,
    out: Path,
    *,
    source: str,
    digest: str,
    resume: bool = False,
    page: bool = True,
    watch: Watch,
) -> dict[str, Json] | None:
    """Replay a stream of reports into a folder, from the start or from where an earlier one was stopped.

    Parameters
    ----------
    reports
        By rising step; the first step is START.
    source, digest
        Name and digest of their file, for the manifest.
    resume
        Go on where an earlier replay of the same reports and rules was stopped.
    page
        Write ``report.html``.

    Returns
    -------
    The summary, or None if it was stopped; then everything is committed and ready to resume.
    """
    if "config" in read_manifest(out):
        raise InputError(f"{out} holds a run; name another folder for the replay")
    manifest: dict[str, Json] = {
        "fielding": __version__,
        "source": source,
        "reports_blake2b": digest,
        "policy": policy_record(policy),
    }
    folder = ReplayFolder(out, manifest)
    try:
        found, after = None, None
        if resume and folder.is_begun():
            found, after = folder.resume()
        else:
            folder.begin()
        coordinator = found or Coordinator(policy)
        done = replay(reports, coordinator, folder, after=after, watch=watch)
        folder.write_memberships(coordinator)
        if not done:
            return None
        rows = folder.lines(LOGS[0])
        summary = replay_summary(rows)
        if page:
            folder.write_page(replay_page(rows, summary, manifest))
        folder.write_summary(summary)
        return summary
    finally:
        folder.close()


def replay(
    steps: Iterable[tuple[int, ReportBatch]],
    coordinator: Coordinator,
    folder: ReplayFolder,
    *,
    after: int | None = None,
    watch: Watch = lambda _row: True,
) -> bool:
    """Replay the steps that come after one, commit now and then and at the end; return whether all were replayed."""
    committed, last = time.monotonic(), after
    for step, batch in steps:
        if after is not None and step <= after:
            if watch(None) is False:
                return False
            continue
        decision = coordinator.update(batch, step=step)
        row = replay_row(coordinator, decision)
        folder.append(row, decision, coordinator)
        last = step
        goes_on = watch(row) is not False
        if not goes_on or time.monotonic() - committed > COMMIT_EVERY_S:
            folder.commit(coordinator, last)
            committed = time.monotonic()
        if not goes_on:
            return False
    folder.commit(coordinator, last)
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
