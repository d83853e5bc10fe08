"""Cards of the clusters as they are now: how large, which labels, how accurate, how old."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import ClientId, Vector
from fielding.reporting.charts.cluster_colors import COLORS, SHARED, cluster_colors
from fielding.reporting.charts.histories import NOWHERE, feature_names, ids_in_order, last_round, newest_rows, places_at
from fielding.reporting.page import Card, Section
from fielding.reporting.run_lines import Changes
from fielding.reporting.run_record import RunRecord
from fielding.reporting.words import digits

MOST_CARDS = 12
TOP_LABELS = 3
WORST = 0.1
"""The share of a cluster's clients that counts as its worst."""
_TITLE = "The clusters now"
_LONGEST_NAME = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterNow:
    """One cluster, after the last round.

    Parameters
    ----------
    cluster
        Its stable id.
    n_clients
        Its members.
    labels
        The labels that its members have most of, with their mean shares; falling, none where reports tell no labels.
    accuracy, worst
        The mean over its members in the last evaluation, and over the worst tenth of them; NaN if none was tested.
    since
        The round in which it first had a member.
    """

    cluster: int
    n_clients: int
    labels: Sequence[tuple[str, float]]
    accuracy: float
    worst: float
    since: int


def cluster_cards(run: RunRecord, group: str | None) -> Section:
    """Return a card for each of the largest clusters, and one for the rest."""
    changes = run.memberships()
    found = clusters_now(run)
    if not found:
        return Section(title=_TITLE, missing="No client is in a cluster yet.", group=group)
    colors, now = cluster_colors(changes), max(last_round(run), changes[-1][0])
    whole = sum(one.n_clients for one in found)
    shown = found if len(found) <= MOST_CARDS else found[: MOST_CARDS - 1]
    cards = [_card(one, whole, now, colors.color(one.cluster)) for one in shown]
    if len(shown) < len(found):
        cards.append(_rest(found[len(shown) :], whole))
    labels = "the labels that its clients have most of, by their newest reports; " if found[0].labels else ""
    return Section(
        title=_TITLE,
        text=(
            f"Each of the {len(found)} clusters after round {now}: its clients and their share; {labels}the mean "
            "accuracy of its clients in the last evaluation, and of the worst tenth of them; and its age."
        ),
        cards=cards,
        group=group,
    )


def clusters_now(run: RunRecord) -> list[ClusterNow]:
    """Return all clusters that have members, the largest first, of equal ones the older."""
    changes = run.memberships()
    client_ids = ids_in_order(changes)
    if not client_ids:
        return []
    places = places_at(changes, [changes[-1][0]], client_ids)[0]
    mixes, tested, births = _label_mixes(run, client_ids), _tested(run), _births(changes)
    found = []
    for cluster in np.unique(places[places >= 0]).tolist():
        members = np.flatnonzero(places == cluster)
        accuracy = np.array([tested.get(client_ids[at], np.nan) for at in members.tolist()])
        mean, worst = mean_and_worst(accuracy)
        found.append(
            ClusterNow(
                cluster=cluster,
                n_clients=members.size,
                labels=_top(mixes[0], mixes[1][members]) if mixes else (),
                accuracy=mean,
                worst=worst,
                since=births[cluster],
            )
        )
    return sorted(found, key=lambda one: (-one.n_clients, one.cluster))


def mean_and_worst(accuracy: Vector) -> tuple[float, float]:
    """Return the mean of what is known, and of its lowest tenth, one at least; NaN if nothing is known.

    Examples
    --------
    >>> mean_and_worst(np.array([0.5, np.nan, 1.0]))
    (0.75, 0.5)
    """
    known = np.sort(accuracy[~np.isnan(accuracy)])
    if not known.size:
        return float("nan"), float("nan")
    return float(known.mean()), float(known[: max(1, int(np.ceil(WORST * known.size)))].mean())


def _label_mixes(run: RunRecord, client_ids: Sequence[ClientId]) -> tuple[list[str], Vector] | None:
    """Return the names of labels and the newest shares of each client, NaN without any; None if nobody told."""
    reports = run.reports()
    names = feature_names(run, reports) if reports is not None else []
    if reports is None or not names:
        return None
    row_of = dict(zip(reports.client_ids, newest_rows(reports, [int(reports.step.max())])[0].tolist(), strict=True))
    rows = np.array([row_of.get(client, NOWHERE) for client in client_ids])
    mixes = reports.representations[rows].astype(np.float64)
    sums = mixes.sum(axis=1, keepdims=True)
    is_known = (rows >= 0)[:, None] & (sums > 0)
    return names, np.where(is_known, mixes / np.where(sums > 0, sums, 1.0), np.nan)


def _top(names: Sequence[str], mixes: Vector) -> list[tuple[str, float]]:
    known = mixes[~np.isnan(mixes[:, 0])]
    if not len(known):
        return []
    mean = known.mean(axis=0)
    return [(names[at], float(mean[at])) for at in np.argsort(-mean, kind="stable")[:TOP_LABELS].tolist() if mean[at]]


def _tested(run: RunRecord) -> Mapping[ClientId, float]:
    last = run.last_test()
    return {} if last is None else dict(zip(last.client_ids, last.accuracy().tolist(), strict=True))


def _births(changes: Sequence[Changes]) -> dict[int, int]:
    births: dict[int, int] = {}
    for at, changed in changes:
        for _, cluster in changed:
            births.setdefault(cluster, at)
    return births


def _card(one: ClusterNow, whole: int, now: int, color: str) -> Card:
    labels = ", ".join(f"{name[:_LONGEST_NAME]} ({share:.0%})" for name, share in one.labels)
    age = now - one.since
    parts = [
        f"mostly {labels}" if labels else "",
        f"accuracy {digits(one.accuracy)}, worst tenth {digits(one.worst)}" if one.accuracy == one.accuracy else "",
        f"since round {one.since} ({age:,} round{'' if age == 1 else 's'} old)",
    ]
    return Card(
        name=f"cluster {one.cluster}",
        value=_clients(one.n_clients, whole),
        note=";\n".join(part for part in parts if part),
        color=color,
    )


def _rest(rest: Sequence[ClusterNow], whole: int) -> Card:
    n_clients = sum(one.n_clients for one in rest)
    known = [(one.accuracy, one.n_clients) for one in rest if one.accuracy == one.accuracy]
    n_known = sum(size for _, size in known)
    mean = sum(accuracy * size for accuracy, size in known) / n_known if n_known else float("nan")
    return Card(
        name=f"{len(rest)} smaller clusters",
        value=_clients(n_clients, whole),
        note=f"of {rest[-1].n_clients:,} to {rest[0].n_clients:,} clients;\naccuracy {digits(mean)}",
        color=COLORS[SHARED],
    )


def _clients(size: int, whole: int) -> str:
    return f"{size:,} client{'' if size == 1 else 's'} ({size / whole:.0%})"
