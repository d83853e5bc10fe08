"""The clusters of a run: a colour for each, the same in all figures that show its inside, and a card for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import ClientId, Vector
from fielding.federation.evaluation import mean_of_worst_tenth
from fielding.reporting.charts.figures import GRAY, PALETTE
from fielding.reporting.charts.histories import NOWHERE, ids_in_order, label_names, last_round, newest_rows, places_at
from fielding.reporting.formatting import digits
from fielding.reporting.numbers.run_record import Changes, RunRecord, sizes_over_time
from fielding.reporting.page import Card, Section

OWN = tuple(color for at, color in enumerate(PALETTE) if at != GRAY)  # colours that clusters have for themselves
COLORS = (*OWN, PALETTE[GRAY], "#B9C0C8")
SHARED, NONE = len(OWN), len(OWN) + 1
"""Places in ``COLORS``: of the smallest clusters if there are too many, and of clients without a cluster."""
MOST_CARDS = 12
TOP_LABELS = 3
_LONGEST_NAME = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterColors:
    """The colours of all clusters that a run ever had.

    ``slots`` holds the place of each cluster in ``COLORS``, by its stable id.
    """

    slots: Mapping[int, int]

    def slot(self, cluster: int) -> int:
        """Return the place of a cluster in ``COLORS``; a negative one stands for no cluster."""
        return NONE if cluster < 0 else self.slots.get(cluster, SHARED)

    def color(self, cluster: int) -> str:
        """Return the colour of a cluster."""
        return COLORS[self.slot(cluster)]

    def name(self, cluster: int) -> str:
        """Return what a cluster is called."""
        return "no cluster" if cluster < 0 else f"cluster {cluster}"

    @property
    def legend(self) -> dict[int, str]:
        """What each place in ``COLORS`` that a cluster has stands for, rising."""
        sharing: dict[int, list[int]] = {}
        for cluster, slot in sorted(self.slots.items()):
            sharing.setdefault(slot, []).append(cluster)
        names = {}
        for slot, clusters in sorted(sharing.items()):
            shown = f"{', '.join(map(str, clusters[:3]))}{', ...' if len(clusters) > 3 else ''}"
            many = f"{len(clusters)} small clusters" if slot == SHARED else f"clusters {shown}"
            names[slot] = f"cluster {clusters[0]}" if len(clusters) == 1 else many
        return names


def assign_colors(changes: Sequence[Changes]) -> ClusterColors:
    """Give every cluster a colour, by who was in which cluster when.

    Clusters that were never there together may have the same colour, but only once all colours are in use. If more
    are there at once than there are colours, the smallest share gray; size is clients times rounds.

    Examples
    --------
    >>> colors = assign_colors([(0, [("ann", 4), ("bob", 7)]), (9, [("bob", 8)])])
    >>> colors.slots, colors.legend
    ({4: 0, 7: 1, 8: 2}, {0: 'cluster 4', 1: 'cluster 7', 2: 'cluster 8'})
    """
    # From which change to which one each cluster had members, and how many it had, times rounds.
    lives: dict[int, _Life] = {}
    spans = [later[0] - earlier[0] for earlier, later in pairwise(changes)]
    for at, (_, sizes) in enumerate(sizes_over_time(changes)):
        for cluster, size in sizes.items():
            life = lives.setdefault(cluster, _Life(at, at))
            life.last = at
            life.weight += size * (spans[at] if at < len(spans) else 1)
    crowd = max(
        (sum(other.meets(_Life(one.first, one.first)) for other in lives.values()) for one in lives.values()), default=0
    )
    if crowd > len(OWN):
        order = sorted(lives, key=lambda cluster: (-lives[cluster].weight, cluster))
    else:  # by birth, so that those who come later change nothing; that never takes more colours than the crowd has
        order = sorted(lives, key=lambda cluster: (lives[cluster].first, cluster))
    slots: dict[int, int] = {}
    uses = [0] * len(OWN)
    for cluster in order:
        taken = {slots[other] for other in slots if lives[other].meets(lives[cluster])}
        free = [slot for slot in range(len(OWN)) if slot not in taken]
        slots[cluster] = min(free, key=lambda slot: (uses[slot], slot), default=SHARED)
        if slots[cluster] != SHARED:
            uses[slots[cluster]] += 1
    # The same sharing of colours, with these in the order of the oldest cluster that each has.
    rank: dict[int, int] = {SHARED: SHARED}
    for cluster in sorted(slots):
        rank.setdefault(slots[cluster], len(rank) - 1)
    return ClusterColors(slots={cluster: rank[slot] for cluster, slot in sorted(slots.items())})


@dataclass(slots=True)
class _Life:
    first: int
    last: int
    weight: float = 0.0

    def meets(self, other: "_Life") -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterNow:
    """One cluster, by its stable id, after the last round.

    ``labels`` are those that its members have most of, with their mean shares, falling; none where reports tell no
    labels. ``accuracy`` is the mean over its members in the last evaluation, ``worst`` over the worst tenth of them;
    NaN if none was tested. ``since`` is the round in which it first had a member.
    """

    cluster: int
    n_clients: int
    labels: Sequence[tuple[str, float]]
    accuracy: float
    worst: float
    since: int


def draw_cluster_cards(run: RunRecord, group: str | None) -> Section:
    """Return a card for each of the largest clusters, and one for the rest."""
    title, changes, found = "The clusters now", run.memberships(), clusters_now(run)
    if not found:
        return Section(title=title, missing="No client is in a cluster yet.", group=group)
    colors, now = assign_colors(changes), max(last_round(run), changes[-1][0])
    whole = sum(one.n_clients for one in found)
    shown = found if len(found) <= MOST_CARDS else found[: MOST_CARDS - 1]
    cards = [_card(one, whole, now, colors.color(one.cluster)) for one in shown]
    if rest := found[len(shown) :]:
        known = [(one.accuracy, one.n_clients) for one in rest if one.accuracy == one.accuracy]
        n_known = sum(size for _, size in known)
        mean = sum(accuracy * size for accuracy, size in known) / n_known if n_known else float("nan")
        cards.append(
            Card(
                name=f"{len(rest)} smaller clusters",
                value=_clients(sum(one.n_clients for one in rest), whole),
                note=f"of {rest[-1].n_clients:,} to {rest[0].n_clients:,} clients;\naccuracy {digits(mean)}",
                color=COLORS[SHARED],
            )
        )
    labels = "the labels that its clients have most of, by their newest reports; " if found[0].labels else ""
    return Section(
        title=title,
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
    mixes, last = _label_mixes(run, client_ids), run.last_test()
    tested = {} if last is None else dict(zip(last.client_ids, last.accuracy().tolist(), strict=True))
    births: dict[int, int] = {}
    for at, changed in changes:
        for _, cluster in changed:
            births.setdefault(cluster, at)
    found = []
    for cluster in np.unique(places[places >= 0]).tolist():
        members = np.flatnonzero(places == cluster)
        accuracy = np.array([tested.get(client_ids[at], np.nan) for at in members.tolist()])
        mean, worst = mean_and_worst(accuracy)
        found.append(
            ClusterNow(
                cluster=cluster,
                n_clients=members.size,
                labels=_top_labels(mixes[0], mixes[1][members]) if mixes else (),
                accuracy=mean,
                worst=worst,
                since=births[cluster],
            )
        )
    return sorted(found, key=lambda one: (-one.n_clients, one.cluster))


def mean_and_worst(accuracy: Vector) -> tuple[float, float]:
    """Return the mean of what is known, and of its lowest tenth, one at least; NaN if nothing is known."""
    known = accuracy[~np.isnan(accuracy)]
    if not known.size:
        return float("nan"), float("nan")
    return float(known.mean()), mean_of_worst_tenth(known)


def _label_mixes(run: RunRecord, client_ids: Sequence[ClientId]) -> tuple[list[str], Vector] | None:
    """Return the names of labels and the newest shares of each client, NaN without any; None if no report tells."""
    reports = run.reports()
    names = label_names(run, reports) if reports is not None else []
    if reports is None or not names:
        return None
    row_of = dict(zip(reports.client_ids, newest_rows(reports, [int(reports.step.max())])[0].tolist(), strict=True))
    rows = np.array([row_of.get(client, NOWHERE) for client in client_ids])
    mixes = reports.representations[rows].astype(np.float64)
    sums = mixes.sum(axis=1, keepdims=True)
    is_known = (rows >= 0)[:, None] & (sums > 0)
    return names, np.where(is_known, mixes / np.where(sums > 0, sums, 1.0), np.nan)


def _top_labels(names: Sequence[str], mixes: Vector) -> list[tuple[str, float]]:
    known = mixes[~np.isnan(mixes[:, 0])]
    if not len(known):
        return []
    mean = known.mean(axis=0)
    return [(names[at], float(mean[at])) for at in np.argsort(-mean, kind="stable")[:TOP_LABELS].tolist() if mean[at]]


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


def _clients(size: int, whole: int) -> str:
    return f"{size:,} client{'' if size == 1 else 's'} ({size / whole:.0%})"
