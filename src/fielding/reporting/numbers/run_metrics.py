"""Every figure of a run, from its folder alone."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from sys import intern

import numpy as np

from fielding._typing import ClientId, Json
from fielding.federation.ledger import CATEGORIES
from fielding.records.run_folder import EVENTS
from fielding.reporting.numbers.cluster_quality import agreement, churn
from fielding.reporting.numbers.detection import client_rounds, concept_changes, detection
from fielding.reporting.numbers.drift_response import Curve, mean_response, responses
from fielding.reporting.numbers.fairness import final_fairness
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import evaluations, final_evaluations, run_summary

Row = Mapping[str, Json]
_SERVER_STAGES = ("adapt", "select", "learn")
_STAGES = ("observe", *_SERVER_STAGES, "train", "evaluate")


def run_metrics(record: RunRecord) -> dict[str, Json]:
    """Return the figures of a run; docs/metrics.md defines each.

    What the folder does not tell is None or not there: nothing raises. Those of ``run_summary`` have the same
    names and values. Figures that need other runs (the time to a target, the regret) are those of the comparison.
    """
    rounds: list[Row] = [{"n_clusters": None, **row} for row in record.rounds]
    parts: tuple[Callable[[RunRecord], Mapping[str, Json]], ...] = (
        _fairness,
        _drift_responses,
        detection_metrics,
        cluster_metrics,
        cost_metrics,
        timing_metrics,
    )
    found = run_summary(rounds, record.events, gap=record.gap)
    for part in parts:
        # What both know has the value of the logs: the summary's.
        found = {**part(record), **found}
    return {name: _finite(value) for name, value in found.items()}


def detection_metrics(record: RunRecord) -> dict[str, Json]:
    """Return how soon and how reliably clients told that their concept changed.

    None where concepts are not known, or where no coordinator hears reports.
    """
    concepts = record.concepts()
    if not concepts or not record.events:
        return dict.fromkeys(("detection_delay", "miss_rate", "false_reports_per_100"))
    since, n_rounds = concepts[0][0], len(record.rounds)
    reports: dict[ClientId, list[int]] = {}
    for at, reporters in record.reader.lines(record.folder / EVENTS, _reporters).rows:
        for client in reporters if at >= since else ():
            reports.setdefault(client, []).append(at)
    return {
        **detection(
            concept_changes(concepts),
            reports,
            n_rounds=n_rounds,
            n_client_rounds=client_rounds(concepts, n_rounds),
        )
    }


def cluster_metrics(record: RunRecord) -> dict[str, Json]:
    """Return how well clusters match the true concepts, how many there are, how separate and how restless they are."""
    memberships, concepts = record.memberships(), record.concepts()
    n_clusters = column(record.rounds, "n_clusters")
    scores = [score for event in record.events if (score := _chosen_silhouette(event)) is not None]
    return {
        **agreement(memberships, concepts, _final_rounds(record)),
        "churn": churn(memberships, len(record.rounds)),
        "mean_clusters": None if np.isnan(n_clusters).all() else float(np.nanmean(n_clusters)),
        "silhouette": sum(scores) / len(scores) if scores else None,
    }


def cost_metrics(record: RunRecord) -> dict[str, Json]:
    """Return bytes and client seconds by what they were spent on: ``model``, ``report`` or ``probe``."""
    totals = record.costs() or {}
    found: dict[str, Json] = {}
    for quantity in ("bytes_down", "bytes_up", "client_seconds"):
        parts = totals.get(quantity)
        for category in CATEGORIES:
            found[f"{quantity}_{category}"] = parts.get(category) if isinstance(parts, dict) else None
    return found


TIMINGS = ("server_ms", "adapt_ms_mean", "adapt_ms_max", "wall_s", "peak_bytes")
"""Figures of a run that depend on the machine: equal runs differ in them."""


def timing_metrics(record: RunRecord) -> dict[str, Json]:
    """Return the figures named in ``TIMINGS``.

    ``server_ms``
        Wall-clock milliseconds a round in which the server decides, selects and puts models together.
    ``adapt_ms_mean``, ``adapt_ms_max``
        Those of decisions alone, clustering among them: mean over rounds, and the slowest.
    ``wall_s``
        Wall-clock seconds of all rounds.
    ``peak_bytes``
        The most memory that the process held.
    """
    lines = record.timings()
    if not lines:
        return dict.fromkeys(TIMINGS)
    stages = {name: np.nan_to_num(column(lines, name)) for name in _STAGES}
    whole = column(lines, "whole")
    whole = np.where(np.isnan(whole), sum(stages.values()), whole)
    peaks = column(lines, "peak_bytes")
    return {
        "server_ms": 1000.0 * float(np.mean(sum(stages[name] for name in _SERVER_STAGES))),
        "adapt_ms_mean": 1000.0 * float(stages["adapt"].mean()),
        "adapt_ms_max": 1000.0 * float(stages["adapt"].max()),
        "wall_s": float(whole.sum()),
        "peak_bytes": None if np.isnan(peaks).all() else int(np.nanmax(peaks)),
    }


def _fairness(record: RunRecord) -> dict[str, Json]:
    return final_fairness(record.tests(), _final_rounds(record))


def _drift_responses(record: RunRecord) -> dict[str, Json]:
    """Return what followed on drifts, and what followed on re-clusterings within a gap."""
    tested = evaluations(record.rounds)
    curve = Curve(rounds=column(tested, "round"), accuracy=column(tested, "accuracy"), n_rounds=len(record.rounds))
    fired = [float(str(row["round"])) for row in record.rounds if row.get("reclustered")]
    return {
        **mean_response(responses(curve, drift_rounds(record)), "drift_"),
        **mean_response(responses(curve, fired, longest=record.gap), "recluster_"),
    }


def drift_rounds(record: RunRecord) -> list[float]:
    """Return the rounds in which somebody's true concept changed; where nobody knows, in which samples arrived."""
    concepts = record.concepts()
    if not concepts:
        return record.arrivals
    return sorted({float(at) for mine in concept_changes(concepts).values() for at in mine})


def _final_rounds(record: RunRecord) -> list[int]:
    return [int(str(row["round"])) for row in final_evaluations(record.rounds)]


def _chosen_silhouette(event: Row) -> float | None:
    """Return the silhouette of the number of clusters that was chosen; None if nothing was clustered."""
    scores = event.get("silhouettes")
    if not isinstance(scores, dict) or not (event.get("fired") or event.get("started")):
        return None
    score = scores.get(str(event.get("n_clusters")))
    return float(score) if isinstance(score, (int, float)) else None


def _reporters(line: Row) -> tuple[int, Sequence[ClientId]]:
    """Return the round of an event and who told of data in it; who went silent told of none."""
    reported, silenced, at = line["reported"], line.get("silenced"), line["round"]
    if not isinstance(reported, list) or not isinstance(at, int):
        raise TypeError
    gone = {str(one) for one in silenced} if isinstance(silenced, list) else set()
    # Interned: a client that reports in every round is the same text each time, and there may be millions.
    return at, [one if isinstance(one, int) else intern(str(one)) for one in reported if str(one) not in gone]


def _finite(value: Json) -> Json:
    return None if isinstance(value, float) and not isfinite(value) else value
