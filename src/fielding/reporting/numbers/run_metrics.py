"""Every figure of a run, from its folder alone."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from sys import intern
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Vector
from fielding.federation.evaluation import TREATMENTS, WORST, mean_of_worst_tenth
from fielding.federation.ledger import CATEGORIES
from fielding.records.run_folder import CONCEPTS, EVENTS
from fielding.reporting.numbers.run_record import ClientTests, Row, RunRecord, column
from fielding.reporting.numbers.run_summary import evaluations, final_evaluations, run_summary

Changed: TypeAlias = tuple[int, Sequence[tuple[ClientId, int]]]
"""A round, and clients with the cluster or concept that they have from then on; -1 for none."""
Rounds: TypeAlias = Mapping[ClientId, Sequence[int]]  # by client: rounds, rising

TIMINGS = ("server_ms", "adapt_ms_mean", "adapt_ms_max", "wall_s", "peak_bytes")
"""Figures of a run that depend on the machine: equal runs differ in them."""
FAIRNESS = ("worst_decile", "best_decile", "decile_gap", "client_p10", "client_min", "client_std", "jain_index")
BEFORE = 10  # rounds before a drift whose evaluations tell how good the models were
RECOVERED = 0.95  # share of that accuracy at which models count as recovered
_SERVER_STAGES = ("adapt", "select", "learn")
_STAGES = ("observe", *_SERVER_STAGES, "train", "evaluate")


def run_metrics(record: RunRecord) -> dict[str, Json]:
    """Return the figures of a run; docs/metrics.md defines each.

    What the folder does not tell is None or not there: nothing raises. Those of ``run_summary`` have the same
    names and values. Figures that need other runs (the time to a target, the regret) are those of the comparison.
    """
    rounds: list[Row] = [{"n_clusters": None, **row} for row in record.rounds]
    final_rounds = [int(str(row["round"])) for row in final_evaluations(record.rounds)]
    found: dict[str, Json] = {}
    for part in (
        _timing_metrics(record),
        _cost_metrics(record),
        _cluster_metrics(record, final_rounds),
        _detection_metrics(record),
        drift_figures(record),
        final_fairness(record.tests(), final_rounds),
        # What both know has the value of the logs: the summary's.
        run_summary(rounds, record.events, gap=record.gap),
    ):
        found = {**found, **part}
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in found.items()}


# ---------------------------------------------------------------- how evenly clients are served


def fairness_figures(accuracy: Vector) -> dict[str, float]:
    """Return how the accuracies of clients are spread, as docs/metrics.md defines it; nothing if no client is left.

    ``accuracy``: of each client, shape ``(n_clients,)``; NaN for those that have no test samples, who are left out. The
    standard deviation is divided by the number of clients; Jain's index is 1 also if all get nothing.

    Examples
    --------
    >>> found = fairness_figures(np.array([1.0, 0.5, 0.5, np.nan]))
    >>> found["worst_decile"], found["decile_gap"], round(found["jain_index"], 4), round(found["client_p10"], 3)
    (0.5, 0.5, 0.8889, 0.5)
    """
    known = np.sort(accuracy[~np.isnan(accuracy)])
    if not known.size:
        return {}
    worst, best = mean_of_worst_tenth(known), -mean_of_worst_tenth(-known)
    squares = float(known.size * (known**2).sum())
    return {
        "worst_decile": worst,
        "best_decile": best,
        "decile_gap": best - worst,
        "client_p10": float(np.quantile(known, 1 / WORST)),
        "client_min": float(known[0]),
        "client_std": float(known.std()),
        "jain_index": float(known.sum()) ** 2 / squares if squares else 1.0,
    }


def final_fairness(tests: Sequence[ClientTests], final_rounds: Sequence[int]) -> dict[str, Json]:
    """Return the means of :func:`fairness_figures` over the tests of some rounds; None if there are none.

    The names end in ``_corrected``, ``_tuned`` or ``_served`` for what clients make of their models.
    """
    wanted = set(final_rounds)
    chosen = [one for one in tests if one.round_index in wanted]
    found: dict[str, Json] = dict.fromkeys(FAIRNESS)
    for how in ("", *TREATMENTS):
        parts = [fairness_figures(one.accuracy(how)) for one in chosen if not how or how in one.otherwise]
        spreads = [one for one in parts if one]
        for name in spreads[0] if spreads else ():
            found[f"{name}_{how}" if how else name] = sum(one[name] for one in spreads) / len(spreads)
    return found


# ---------------------------------------------------------------- how accuracy answers a drift


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What followed on one drift."""

    before: float  # mean accuracy of the evaluations in the ten rounds before it; of the last one if those have none
    dip: float  # before minus the lowest accuracy after it; negative if accuracy was always higher
    # Rounds from the drift to the first evaluation after the lowest that is back at 95 % of before; 0 if the lowest is
    # not below that, None if accuracy did not come back.
    recovery_rounds: float | None
    # What was lost: before minus accuracy where that is positive, times the rounds for which an evaluation stands
    # (those to the next one), added up.
    loss_area: float


def responses(
    rounds: Vector, accuracy: Vector, drifts: Sequence[float], *, n_rounds: int, longest: float = np.inf
) -> list[Response]:
    """Return the response to each drift that has an evaluation before it and one in its time, up to the next drift.

    ``rounds``: those that were evaluated, rising. ``drifts``: the rounds in which data drifted, rising; the evaluation
    of such a round is the first that feels it. ``n_rounds``: how many rounds the run has; the last evaluation stands
    for those up to the end. ``longest``: so many rounds after a drift are looked at, at most.

    Examples
    --------
    >>> rounds, accuracy = np.array([0.0, 5, 10, 15, 20]), np.array([0.7, 0.8, 0.5, 0.7, 0.8])
    >>> found = responses(rounds, accuracy, [6.0], n_rounds=25)[0]
    >>> round(found.before, 3), round(found.dip, 3), found.recovery_rounds, round(found.loss_area, 3)
    (0.75, 0.25, 14.0, 1.5)
    """
    found = []
    for at, following in zip(drifts, [*drifts[1:], n_rounds], strict=False):
        end = min(following, at + longest)
        first, stop = np.searchsorted(rounds, [at, end]).tolist()
        if not 0 < first < stop:
            continue
        start = min(int(np.searchsorted(rounds, at - BEFORE)), first - 1)
        before = float(accuracy[start:first].mean())
        when, after = rounds[first:stop], accuracy[first:stop]
        lost = np.maximum(before - after, 0.0) * np.diff(when, append=end)
        lowest, recovery = int(after.argmin()), None
        back = np.flatnonzero(after[lowest:] >= RECOVERED * before)
        if after[lowest] >= RECOVERED * before:
            recovery = 0.0
        elif back.size:
            recovery = float((when - at)[lowest + back[0]])
        found.append(
            Response(
                before=before, dip=before - float(after.min()), recovery_rounds=recovery, loss_area=float(lost.sum())
            )
        )
    return found


def mean_response(found: Sequence[Response], prefix: str) -> dict[str, float | int | None]:
    """Return means over drifts, their names with a prefix.

    ``dip``, ``dip_max``, ``recovery_rounds`` (over the drifts from which accuracy came back), ``unrecovered`` (share of
    the others) and ``loss_area``; all None without a drift.

    Examples
    --------
    >>> one = Response(before=0.8, dip=0.2, recovery_rounds=4.0, loss_area=1.0)
    >>> found = mean_response([one, Response(before=0.8, dip=0.5, recovery_rounds=None, loss_area=3.0)], "drift_")
    >>> found["drift_dip"], found["drift_recovery_rounds"], found["drift_unrecovered"], found["drift_loss_area"]
    (0.35, 4.0, 0.5, 2.0)
    """

    def mean(values: Sequence[float]) -> float | None:
        return sum(values) / len(values) if values else None

    back = [one.recovery_rounds for one in found if one.recovery_rounds is not None]
    return {
        f"{prefix}dip": mean([one.dip for one in found]),
        f"{prefix}dip_max": max((one.dip for one in found), default=None),
        f"{prefix}recovery_rounds": mean(back),
        f"{prefix}unrecovered": (len(found) - len(back)) / len(found) if found else None,
        f"{prefix}loss_area": mean([one.loss_area for one in found]),
    }


def drift_rounds(record: RunRecord) -> list[float]:
    """Return the rounds in which data drifted, rising: true concepts changed, or, where none is known, samples came."""
    concepts = record.concepts()
    if not concepts:
        return record.arrivals

    def find() -> list[float]:
        return sorted({float(at) for mine in concept_changes(concepts).values() for at in mine})

    # Half a dozen charts ask, and a million clients have as many changes.
    return record.reader.keep(record.folder / CONCEPTS, (len(concepts), concepts[-1][0]), find)


def drift_figures(record: RunRecord) -> dict[str, Json]:
    """Return what followed on drifts, and what followed on re-clusterings within a gap."""
    tested, n_rounds = evaluations(record.rounds), len(record.rounds)
    rounds, accuracy = column(tested, "round"), column(tested, "accuracy")
    fired = [float(str(row["round"])) for row in record.rounds if row.get("reclustered")]
    after_fired = responses(rounds, accuracy, fired, n_rounds=n_rounds, longest=record.gap)
    return {
        **mean_response(responses(rounds, accuracy, drift_rounds(record), n_rounds=n_rounds), "drift_"),
        **mean_response(after_fired, "recluster_"),
    }


# ---------------------------------------------------------------- how clients tell of drift


def concept_changes(concepts: Iterable[Changed]) -> dict[ClientId, list[int]]:
    """Return in which rounds each client came to another concept than its last one.

    The first concept is no change, nor is a break after which the old concept is there again. Clients that never change
    have an empty list.

    Examples
    --------
    >>> concept_changes([(0, [("ann", 2), ("bob", 1)]), (4, [("ann", -1)]), (6, [("ann", 2), ("bob", 3)])])
    {'ann': [], 'bob': [6]}
    """
    last: dict[ClientId, int] = {}
    found: dict[ClientId, list[int]] = {}
    for at, changed in concepts:
        for client, concept in changed:
            if concept < 0:
                continue
            if last.setdefault(client, concept) != concept:
                found[client].append(at)
            found.setdefault(client, [])
            last[client] = concept
    return found


def client_rounds(concepts: Iterable[Changed], n_rounds: int) -> int:
    """Return the number of rounds in which clients had a concept, added up over clients.

    Examples
    --------
    >>> client_rounds([(0, [("ann", 2)]), (4, [("ann", -1), ("bob", 1)]), (6, [("ann", 2)])], n_rounds=10)
    14
    """
    total, since = 0, dict[ClientId, int]()
    for at, changed in concepts:
        for client, concept in changed:
            began = since.pop(client, None)
            total += 0 if began is None else at - began
            if concept >= 0:
                since[client] = at
    return total + sum(max(0, n_rounds - began) for began in since.values())


def detection(changes: Rounds, reports: Rounds, *, n_rounds: int, n_client_rounds: int) -> dict[str, float | None]:
    """Return how reports follow changes of concept, as docs/metrics.md defines it; None where it has no divisor.

    ``changes``: rounds in which each client came to another concept. ``reports``: rounds in which reports of each
    client acted, first ones included. ``n_client_rounds``: rounds with a concept, added up over clients.

    Examples
    --------
    >>> detection({"ann": [4], "bob": [4, 8]}, {"ann": [0, 6, 7], "bob": [0, 8]}, n_rounds=10, n_client_rounds=20)
    {'detection_delay': 1.0, 'miss_rate': 0.3333333333333333, 'false_reports_per_100': 5.0}
    """
    delays: list[int] = []
    n_changes = sum(map(len, changes.values()))
    for client, mine in changes.items():
        reported = reports.get(client, ())
        for at, end in zip(mine, [*mine[1:], n_rounds], strict=False):
            place = bisect_left(reported, at)
            if place < len(reported) and reported[place] < end:
                delays.append(reported[place] - at)
    n_false = 0
    for client, reported in reports.items():
        n_before = [bisect_right(changes.get(client, ()), at) for at in reported]
        n_false += sum(now == before for before, now in pairwise(n_before))
    return {
        "detection_delay": sum(delays) / len(delays) if delays else None,
        "miss_rate": (n_changes - len(delays)) / n_changes if n_changes else None,
        "false_reports_per_100": 100 * n_false / n_client_rounds if n_client_rounds else None,
    }


def _detection_metrics(record: RunRecord) -> dict[str, Json]:
    """Return the figures of :func:`detection`; None where no concept is known, or no coordinator hears reports."""
    concepts = record.concepts()
    if not concepts or not record.events:
        return dict.fromkeys(("detection_delay", "miss_rate", "false_reports_per_100"))
    since, n_rounds = concepts[0][0], len(record.rounds)
    reports: dict[ClientId, list[int]] = {}
    for at, reporters in record.reader.lines(record.folder / EVENTS, _reporters).rows:
        for client in reporters if at >= since else ():
            reports.setdefault(client, []).append(at)
    n_client_rounds = client_rounds(concepts, n_rounds)
    return {**detection(concept_changes(concepts), reports, n_rounds=n_rounds, n_client_rounds=n_client_rounds)}


def _reporters(line: Row) -> tuple[int, Sequence[ClientId]]:
    """Return the round of an event and the clients that reported data in it, without those that went silent."""
    reported, silenced, at = line["reported"], line.get("silenced"), line["round"]
    if not isinstance(reported, list) or not isinstance(at, int):
        raise TypeError
    gone = {str(one) for one in silenced} if isinstance(silenced, list) else set()
    # Interned: a client that reports in every round is the same text each time, and there may be millions.
    return at, [one if isinstance(one, int) else intern(str(one)) for one in reported if str(one) not in gone]


# ---------------------------------------------------------------- clusters


def purity(clusters: npt.ArrayLike, concepts: npt.ArrayLike) -> float:
    """Return the share of clients whose concept is the most frequent one of their cluster.

    ``clusters``, ``concepts``: of each client, whole numbers, shape ``(n_clients,)``, at least one client.

    Examples
    --------
    >>> purity([0, 0, 0, 1], [5, 5, 6, 6])
    0.75
    """
    _, rows = np.unique(clusters, return_inverse=True)
    _, columns = np.unique(concepts, return_inverse=True)
    pairs, counts = np.unique(np.stack([rows, columns]), axis=1, return_counts=True)
    most = np.zeros(int(rows.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs[0], counts)
    return float(most.sum() / rows.size)


def mutual_information(clusters: npt.ArrayLike, concepts: npt.ArrayLike) -> float:
    """Return the adjusted mutual information of two groupings: 1 if they agree, about 0 if they are unrelated.

    Mutual information beyond what chance would give, over the mean of the two entropies beyond that (Vinh, Epps and
    Bailey, 2010).
    """
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(concepts, clusters))


def final_agreement(
    clusters: Sequence[Changed], concepts: Sequence[Changed], at: Sequence[int]
) -> dict[str, float | None]:
    """Return how well clusters match concepts, as means over some rounds.

    ``final_ami`` and ``final_purity``, over the clients that have both; None if no client ever has. ``clusters``,
    ``concepts``: changes of clients' clusters and of their true concepts. ``at``: the rounds, rising.
    """

    def states(changes: Sequence[Changed]) -> list[dict[ClientId, int]]:
        now: dict[ClientId, int] = {}
        found: list[dict[ClientId, int]] = []
        lines = iter(changes)
        line = next(lines, None)
        for wanted in at:
            while line is not None and line[0] <= wanted:
                now.update(line[1])
                line = next(lines, None)
            found.append(dict(now))
        return found

    both = []
    for mine, real in zip(states(clusters), states(concepts), strict=True):
        known = [
            (cluster, concept)
            for client, cluster in mine.items()
            if cluster >= 0 and (concept := real.get(client, -1)) >= 0
        ]
        if known:
            both.append(np.array(known, dtype=np.int64).T)
    if not both:
        return {"final_ami": None, "final_purity": None}
    return {
        "final_ami": float(np.mean([mutual_information(*pair) for pair in both])),
        "final_purity": float(np.mean([purity(*pair) for pair in both])),
    }


def churn(clusters: Iterable[Changed], n_rounds: int) -> float | None:
    """Return the share of clients that come to another cluster in a round, as a mean over rounds after the first.

    Every change counts, be it one by one or by a re-clustering; a client's first cluster is none. None if there are no
    clusters or no second round.

    Examples
    --------
    >>> churn([(0, [("ann", 0), ("bob", 0)]), (2, [("bob", 1)]), (4, [("ann", 1)])], n_rounds=5)
    0.25
    """
    where: dict[ClientId, int] = {}
    shares, n_lines = 0.0, 0
    for _, changed in clusters:
        n_moved = sum(where.get(client, -1) >= 0 <= cluster != where[client] for client, cluster in changed)
        where.update(changed)
        n_members = sum(cluster >= 0 for cluster in where.values()) if n_moved else 0
        shares, n_lines = shares + (n_moved / n_members if n_members else 0.0), n_lines + 1
    return shares / (n_rounds - 1) if n_lines and n_rounds > 1 else None


def _cluster_metrics(record: RunRecord, final_rounds: Sequence[int]) -> dict[str, Json]:
    """Return how well clusters match the true concepts, how many there are, how separate and how restless they are."""
    memberships, n_clusters = record.memberships(), column(record.rounds, "n_clusters")
    silhouettes = []
    for event in record.events:
        scores = event.get("silhouettes")
        if isinstance(scores, dict) and (event.get("fired") or event.get("started")):
            score = scores.get(str(event.get("n_clusters")))
            silhouettes += [float(score)] if isinstance(score, (int, float)) else []
    return {
        **final_agreement(memberships, record.concepts(), final_rounds),
        "churn": churn(memberships, len(record.rounds)),
        "mean_clusters": None if np.isnan(n_clusters).all() else float(np.nanmean(n_clusters)),
        "silhouette": sum(silhouettes) / len(silhouettes) if silhouettes else None,
    }


# ---------------------------------------------------------------- costs


def _cost_metrics(record: RunRecord) -> dict[str, Json]:
    """Return bytes and client seconds by what they were spent on: ``model``, ``report`` or ``probe``."""
    totals = record.costs() or {}
    found: dict[str, Json] = {}
    for quantity in ("bytes_down", "bytes_up", "client_seconds"):
        parts = totals.get(quantity)
        for category in CATEGORIES:
            found[f"{quantity}_{category}"] = parts.get(category) if isinstance(parts, dict) else None
    return found


def _timing_metrics(record: RunRecord) -> dict[str, Json]:
    """Return the figures named in ``TIMINGS``; docs/metrics.md defines each."""
    lines = record.timings()
    if not lines:
        return dict.fromkeys(TIMINGS)
    stages = {name: np.nan_to_num(column(lines, name)) for name in _STAGES}
    whole, peaks = column(lines, "whole"), column(lines, "peak_bytes")
    whole = np.where(np.isnan(whole), sum(stages.values()), whole)
    return {
        "server_ms": 1000.0 * float(np.mean(sum(stages[name] for name in _SERVER_STAGES))),
        "adapt_ms_mean": 1000.0 * float(stages["adapt"].mean()),
        "adapt_ms_max": 1000.0 * float(stages["adapt"].max()),
        "wall_s": float(whole.sum()),
        "peak_bytes": None if np.isnan(peaks).all() else int(np.nanmax(peaks)),
    }
