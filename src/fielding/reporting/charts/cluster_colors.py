"""One colour for each cluster of a run, the same in all figures that show its inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fielding.reporting.figures import GRAY, PALETTE
from fielding.reporting.run_lines import Changes, sizes_over_time

OWN = tuple(color for at, color in enumerate(PALETTE) if at != GRAY)
"""Colours that clusters have for themselves."""
COLORS = (*OWN, PALETTE[GRAY], "#B9C0C8")
SHARED, NONE = len(OWN), len(OWN) + 1
"""Places in ``COLORS``: of the smallest clusters if there are too many, and of clients without a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterColors:
    """The colours of all clusters that a run ever had.

    Parameters
    ----------
    slots
        The place of each cluster in ``COLORS``, by its stable id.
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
        named: dict[int, list[int]] = {}
        for cluster, slot in sorted(self.slots.items()):
            named.setdefault(slot, []).append(cluster)
        return {slot: _together(slot, clusters) for slot, clusters in sorted(named.items())}


def cluster_colors(changes: Sequence[Changes]) -> ClusterColors:
    """Give every cluster a colour, by who was in which cluster when.

    Clusters that were never there together may have the same colour, but only once all colours are in use. If more
    are there at once than there are colours, the smallest share gray; size is clients times rounds.

    Examples
    --------
    >>> colors = cluster_colors([(0, [("ann", 4), ("bob", 7)]), (9, [("bob", 8)])])
    >>> colors.slots, colors.legend
    ({4: 0, 7: 1, 8: 2}, {0: 'cluster 4', 1: 'cluster 7', 2: 'cluster 8'})
    """
    lives = _lives(changes)
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
    return ClusterColors(slots=_by_id(slots))


@dataclass(slots=True)
class _Life:
    """From which change to which one a cluster had members, and how many it had, times rounds."""

    first: int
    last: int
    weight: float = 0.0

    def meets(self, other: "_Life") -> bool:
        return self.first <= other.last and other.first <= self.last


def _lives(changes: Sequence[Changes]) -> dict[int, _Life]:
    """Return the life of each cluster."""
    lives: dict[int, _Life] = {}
    spans = [later[0] - earlier[0] for earlier, later in pairwise(changes)]
    for at, (_, sizes) in enumerate(sizes_over_time(changes)):
        for cluster, size in sizes.items():
            life = lives.setdefault(cluster, _Life(at, at))
            life.last = at
            life.weight += size * (spans[at] if at < len(spans) else 1)
    return lives


def _by_id(slots: Mapping[int, int]) -> dict[int, int]:
    """Return the same sharing of colours, with these in the order of the oldest cluster that each has."""
    rank: dict[int, int] = {SHARED: SHARED}
    for cluster in sorted(slots):
        rank.setdefault(slots[cluster], len(rank) - 1)
    return {cluster: rank[slot] for cluster, slot in sorted(slots.items())}


def _together(slot: int, clusters: Sequence[int]) -> str:
    if len(clusters) == 1:
        return f"cluster {clusters[0]}"
    if slot == SHARED:
        return f"{len(clusters)} small clusters"
    shown = ", ".join(map(str, clusters[:3]))
    return f"clusters {shown}{', ...' if len(clusters) > 3 else ''}"
