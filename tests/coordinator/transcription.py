"""A slow, plain transcription of METHODS.md 1.4 with the decisions of section 13, to check the fast code against.

Plain lists and floats, one client at a time, no numpy in any decision. Only the candidate partitions are taken from
outside: the same ones that the fast code is given.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

TIE = 1e-9
Row = tuple[float, ...]
Propose = Callable[[list[Row], list[int], int], dict[int, list[int]]]


def l1(a: Row, b: Row) -> float:
    return math.fsum(abs(x - y) for x, y in zip(a, b, strict=True))


def l2(a: Row, b: Row) -> float:
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def hellinger(a: Row, b: Row) -> float:
    return math.sqrt(math.fsum((math.sqrt(x) - math.sqrt(y)) ** 2 for x, y in zip(a, b, strict=True)) / 2.0)


def js(a: Row, b: Row) -> float:
    p, q = [x / math.fsum(a) for x in a], [y / math.fsum(b) for y in b]
    total = 0.0
    for x, y in zip(p, q, strict=True):
        lean = (x - y) / (x + y) if x + y > 0 else 0.0
        total += (x * math.log1p(lean) if x > 0 else 0.0) + (y * math.log1p(-lean) if y > 0 else 0.0)
    return math.sqrt(max(0.0, total / (2.0 * math.log(2.0))))


def cosine(a: Row, b: Row) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    if lengths == 0.0:
        return 1.0
    return min(2.0, max(0.0, 1.0 - math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths))


DISTANCES = {"l1": l1, "l2": l2, "hellinger": hellinger, "js": js, "cosine": cosine}
DIAMETERS = {"l1": 2.0, "l2": math.sqrt(2.0), "hellinger": 1.0, "js": 1.0, "cosine": 1.0}


@dataclass
class Event:
    moved: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    silenced: list[str] = field(default_factory=list)
    shift: float | None = None
    theta: float | None = None
    fired: bool = False
    started: bool = False
    silhouettes: dict[int, float] = field(default_factory=dict)
    mixing: list[list[float]] = field(default_factory=list)


def most_kept(heads: list[list[int]], used: frozenset[int]) -> int:
    """Return the most clients that can keep their cluster's id, by trying every way."""
    if not heads:
        return 0
    without = most_kept(heads[1:], used)
    rest = [at for at, count in enumerate(heads[0]) if count and at not in used]
    return max([without, *(heads[0][at] + most_kept(heads[1:], used | {at}) for at in rest)])


class Transcription:
    """The coordinator, told slowly."""

    def __init__(
        self, *, metric: str, trigger: str, tau: float, reference: str, inherit: str, k_max: int, propose: Propose
    ) -> None:
        self.name = metric
        self.distance = DISTANCES[metric]
        self.trigger, self.tau, self.reference, self.inherit = trigger, tau, reference, inherit
        self.k_max, self.propose = k_max, propose
        self.order: list[str] = []
        self.record: dict[str, Row] = {}
        self.active: dict[str, bool] = {}
        self.cluster: dict[str, int] = {}  # stable id
        self.centers: dict[int, Row] = {}
        self.dormant: set[int] = set()
        self.global_centers: dict[int, Row] = {}
        self.next_id = 0
        self.event = 0
        self.delta, self.fired_before = 0.1, False
        self.hint: dict[frozenset[str], int] = {}

    def actives(self) -> list[str]:
        return [client for client in self.order if self.active[client]]

    def members(self, cluster: int) -> list[str]:
        return [client for client in self.actives() if self.cluster.get(client) == cluster]

    def mean(self, clients: list[str]) -> Row:
        columns = zip(*(self.record[client] for client in clients), strict=True)
        return tuple(math.fsum(column) / len(clients) for column in columns)

    def update(self, reports: dict[str, Row]) -> Event:
        result = Event()
        if not reports:
            return result
        for client in sorted(reports):  # step 1: only records change
            if client not in self.record:
                self.order.append(client)
                self.record[client] = reports[client]
            if any(reports[client]):
                self.record[client] = reports[client]
            if self.active.get(client) and not any(reports[client]):
                result.silenced.append(client)
            self.active[client] = any(reports[client])
        speaking = [client for client in sorted(reports) if self.active[client]]
        result.joined = [client for client in speaking if client not in self.cluster]
        if not self.centers:
            if speaking:
                self.start(result)
        else:
            self.adjust(speaking, result)
        self.event += 1
        return result

    def start(self, result: Event) -> None:
        groups, result.silhouettes = self.best_partition()
        groups.sort(key=lambda group: self.order.index(group[0]))
        for group in groups:
            self.found(self.next_id, group)
            self.next_id += 1
        self.global_centers = dict(self.centers)
        result.started = True
        result.mixing = [[1.0] for _ in groups]

    def found(self, cluster: int, group: list[str]) -> None:
        for client in group:
            self.cluster[client] = cluster
        self.centers[cluster] = self.mean(group)

    def adjust(self, speaking: list[str], result: Event) -> None:
        old_centers, old_dormant = dict(self.centers), set(self.dormant)
        for client in speaking:  # step 2: centers frozen
            nearest = self.nearest(self.record[client], old_centers, self.cluster.get(client))
            if client in self.cluster and self.cluster[client] != nearest:
                result.moved.append(client)
            self.cluster[client] = nearest
        for cluster in self.centers:  # step 3
            group = self.members(cluster)
            if group:
                self.centers[cluster] = self.mean(group)
                self.dormant.discard(cluster)
            else:
                self.dormant.add(cluster)
        result.mixing = [[float(row == column) for column in self.centers] for row in self.centers]
        if not speaking:
            return
        live = [cluster for cluster in self.centers if cluster not in self.dormant]
        result.theta = self.theta(live)
        stayed = [cluster for cluster in live if cluster not in old_dormant]
        before = self.global_centers if self.reference == "last-global" else old_centers
        result.shift = max((self.distance(before[one], self.centers[one]) for one in stayed), default=0.0)
        result.fired = self.fires(result.shift, result.theta, live)
        if result.fired:
            self.recluster(result)

    def nearest(self, row: Row, centers: dict[int, Row], current: int | None) -> int:
        distances = {cluster: self.distance(row, center) for cluster, center in centers.items()}
        tied = [cluster for cluster in distances if distances[cluster] <= min(distances.values()) + TIE]
        return current if current in tied and current is not None else min(tied)

    def theta(self, live: list[int]) -> float:
        if len(live) >= 2:
            pairs = [self.distance(self.centers[a], self.centers[b]) for a, b in itertools.combinations(live, 2)]
        else:
            rows = [self.record[client] for client in self.actives()]
            pairs = [self.distance(a, b) for a, b in itertools.combinations(rows, 2)]
        return math.fsum(pairs) / len(pairs) if pairs else 0.0

    def fires(self, shift: float, theta: float, live: list[int]) -> bool:
        if self.trigger == "center-shift":
            return not math.isinf(self.tau) and shift > self.tau * theta + TIE
        if self.trigger == "pairwise":
            fires = any(
                self.distance(self.record[a], self.record[b]) > self.delta + TIE
                for cluster in live
                for a, b in itertools.combinations(self.members(cluster), 2)
            )
            if fires and self.fired_before:
                self.delta = min(DIAMETERS[self.name], 2.0 * self.delta)
            else:
                self.delta = max(0.1, self.delta - 0.1)
            self.fired_before = fires
            return fires
        return self.trigger == "always"

    def recluster(self, result: Event) -> None:
        old_ids, old_centers = list(self.centers), dict(self.centers)
        old_cluster = dict(self.cluster)
        groups, result.silhouettes = self.best_partition()
        groups.sort(key=lambda group: self.order.index(group[0]))
        heads = [[sum(old_cluster[client] == old for client in group) for old in old_ids] for group in groups]
        ids = self.match(groups, heads, old_ids)
        self.centers, self.dormant = {}, set()
        for cluster, group in sorted(zip(ids, groups, strict=True)):
            self.found(cluster, group)
        self.global_centers = dict(self.centers)
        for client in self.order:
            if not self.active[client] and client in self.cluster:
                self.cluster[client] = self.nearest(self.record[client], self.centers, None)
        result.mixing = [
            self.shares(row, self.centers[cluster], old_centers)
            for cluster, row in sorted(zip(ids, heads, strict=True))
        ]

    def match(self, groups: list[list[str]], heads: list[list[int]], old_ids: list[int]) -> list[int]:
        """Take the ids that the fast code chose, if they keep as many clients under their old id as can be.

        Several ways may be equally good; which one is taken is for the eye only.
        """
        ids = [self.hint[frozenset(group)] for group in groups]
        assert len(set(ids)) == len(ids)
        kept = 0
        for cluster, row in zip(ids, heads, strict=True):
            if cluster in old_ids:
                assert row[old_ids.index(cluster)] > 0
                kept += row[old_ids.index(cluster)]
            else:
                assert cluster >= self.next_id
        assert kept == most_kept(heads, frozenset())
        self.next_id = max(self.next_id, max(ids) + 1)
        return ids

    def shares(self, heads: list[int], center: Row, old_centers: dict[int, Row]) -> list[float]:
        if self.inherit == "average":
            return [count / sum(heads) for count in heads]
        if self.inherit == "majority":
            chosen = heads.index(max(heads))
        else:
            distances = [self.distance(center, old) for old in old_centers.values()]
            chosen = next(at for at, distance in enumerate(distances) if distance <= min(distances) + TIE)
        return [float(at == chosen) for at in range(len(heads))]

    def best_partition(self) -> tuple[list[list[str]], dict[int, float]]:
        clients = self.actives()
        rows = [self.record[client] for client in clients]
        cap = min(self.k_max, len(set(rows)) - 1, len(rows) - 1)
        if len(set(rows)) < 3 or cap < 2:
            return [clients], {}
        ks = list(range(2, cap + 1))
        candidates = self.propose(rows, ks, self.event)
        scores = {k: self.silhouette(rows, candidates[k]) for k in ks}
        chosen = next(k for k in ks if scores[k] >= max(scores.values()) - TIE)
        labels = candidates[chosen]
        groups = [
            [client for client, one in zip(clients, labels, strict=True) if one == label] for label in set(labels)
        ]
        return groups, scores

    def silhouette(self, rows: list[Row], labels: list[int]) -> float:
        if len(set(labels)) < 2:
            return 0.0
        scores = []
        for i, row in enumerate(rows):
            means = {}
            for label in set(labels):
                others = [j for j, other in enumerate(labels) if other == label and j != i]
                if others:
                    means[label] = math.fsum(self.distance(row, rows[j]) for j in others) / len(others)
            if labels[i] not in means:
                scores.append(0.0)
                continue
            inside = means.pop(labels[i])
            outside = min(means.values())
            widest = max(inside, outside)
            scores.append((outside - inside) / widest if widest > 0 else 0.0)
        return math.fsum(scores) / len(scores)
