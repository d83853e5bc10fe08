"""Stages 5 to 8 in one call: reports in, groups and mixing weights out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from fielding._typing import ClientId, Codes, Counts, Floats, Matrix, Membership
from fielding.client.report import ClientReport, ReportBatch, checked_batch
from fielding.coordinator.assignment import (
    Clusters,
    clear_moves,
    in_order_of_first_member,
    live_clusters,
    nearest_clusters,
    occurring,
    recompute_centers,
    root_shares,
    settle,
)
from fielding.coordinator.clustering import Clustering
from fielding.coordinator.decision import Decision
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict
from fielding.coordinator.points import Points
from fielding.coordinator.policy import Policy
from fielding.coordinator.registry import UNASSIGNED, Registry, ReportedRows
from fielding.coordinator.trigger import center_spacing
from fielding.coordinator.warm_start import head_counts, mixing_matrix
from fielding.distance import Metric, metric_named
from fielding.errors import ReportError, echo
from fielding.rng import stream

MOST_SAMPLES = 2**62  # larger numbers of samples are taken for this one
MOST_CLIENTS = 1_000_000  # that are let in by their own reports, unless another number is given
MOST_REPORTS = 100  # of one client that are looked at between two decisions; only the last of them counts anyway
_STATE = ("clusters", "memory", "n_events", "next_id", "inbox", "inbox_counts")


def as_row(representation: Floats) -> Floats:
    """Return a representation as a matrix of one row, for the check that batches pass."""
    try:
        shape = np.shape(representation)
    except ValueError:
        shape = ()
    if len(shape) != 1:
        raise ReportError(f"a representation has shape {shape}; it must be (n_features,)")
    return cast(Floats, np.asarray(representation)[np.newaxis])


def check_same_type(known: ClientId, new: ClientId) -> None:
    """Raise if the ids of the first reports of a federation differ in type."""
    if type(known) is not type(new):
        raise ReportError(f"client ids {echo(known)} and {echo(new)} differ in type; use one type")


def checked_count(n_samples: object) -> int:
    """Return a number of samples, or raise unless it is a whole number from 0."""
    if not isinstance(n_samples, (int, np.integer)) or isinstance(n_samples, bool) or n_samples < 0:
        raise ReportError(f"n_samples is {echo(n_samples)}; give a whole number from 0")
    return min(int(n_samples), MOST_SAMPLES)


def checked_counts(n_samples: object, n_rows: int) -> Counts | None:
    """Return the numbers of samples behind the reports of a batch, or raise unless there is one for each."""
    if n_samples is None:
        return None
    try:
        counts = np.asarray(n_samples)
    except ValueError:
        counts = np.empty(())
    if counts.shape != (n_rows,) or (counts.size and (counts.dtype.kind not in "iu" or int(counts.min()) < 0)):
        raise ReportError(f"n_samples is {echo(n_samples)}; give a whole number from 0 for each of {n_rows} reports")
    return np.asarray(np.minimum(counts, MOST_SAMPLES).astype(np.int64))


def checked_step(step: object) -> int:
    """Return the number of an event, or raise unless it is a whole number of 64 bits."""
    if not isinstance(step, (int, np.integer)) or isinstance(step, bool) or not -(2**63) <= step < 2**63:
        raise ReportError(f"step is {echo(step)}; give a whole number of 64 bits")
    return int(step)


def inherit_ids(heads: Matrix, old_ids: Sequence[int], next_id: int) -> list[int]:
    """Give each new cluster the id of the old one it shares most clients with, or a fresh one.

    ``heads``: clients of each new cluster that come from each old one, shape ``(n_new, n_old)``. The matching keeps as
    many clients as possible under their old id; an id is never used for two clusters, nor passed on where no client is
    shared.

    Examples
    --------
    >>> import numpy as np
    >>> inherit_ids(np.array([[1.0, 9.0], [8.0, 0.0], [3.0, 2.0]]), old_ids=[4, 7], next_id=8)
    [7, 4, 8]
    """
    from scipy.optimize import linear_sum_assignment

    new_rows, old_columns = linear_sum_assignment(heads, maximize=True)
    pairs = [(int(new), int(old)) for new, old in zip(new_rows, old_columns, strict=True)]
    matched = {new: old_ids[old] for new, old in pairs if heads[new, old] > 0.0}
    fresh = iter(range(next_id, next_id + heads.shape[0]))
    return [matched[new] if new in matched else next(fresh) for new in range(heads.shape[0])]


class Coordinator:
    """Groups clients by what they report and keeps the groups right while the reports drift.

    It never sees data or models: a :class:`Decision` says how the owner of the models is to mix them.

    ``may_regroup``: whether a trigger that fires has an effect; a guard that knows better may forbid it for a while.
    ``most_clients``: how many clients :meth:`receive` lets in; a flood of reports under ever new ids ends there.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8]])
    >>> coordinator = Coordinator(Policy(seed=1))
    >>> decision = coordinator.update(ReportBatch(client_ids=["ann", "bob", "cid", "dan"], representations=shares))
    >>> decision.n_live, coordinator.cluster_of("ann") == coordinator.cluster_of("bob")
    (2, True)
    >>> drifted = ReportBatch(client_ids=["bob"], representations=np.array([[0.3, 0.7]]))
    >>> list(coordinator.update(drifted).moved)
    ['bob']
    """

    def __init__(self, policy: Policy | None = None, *, most_clients: int = MOST_CLIENTS) -> None:
        self.policy, self.most_clients = policy or Policy(), most_clients
        self.registry = Registry()
        self.clusters: Clusters | None = None
        self.memory = TriggerMemory()
        self.n_events = 0
        self.next_id = 0
        self.may_regroup = True
        self.inbox: dict[ClientId, Floats] = {}
        self.inbox_counts: dict[ClientId, int] = {}
        self._n_received: dict[ClientId, int] = {}  # since the last decision
        self.newcomers: set[ClientId] = set()

    # ---- what users ask ----------------------------------------------------------------------------------------

    def receive(self, report: ClientReport) -> None:
        """Take one report into the inbox, for the next :meth:`decide`; a newer one of the same client replaces it.

        Raises :class:`~fielding.errors.ReportError` and changes nothing if the report cannot be accepted, is one of too
        many of its client since the last decision, or comes from one client too many.
        """
        sender = report.client_id if isinstance(report.client_id, (int, str, np.integer)) else ""
        if (n_received := self._n_received.get(sender, 0)) >= MOST_REPORTS:
            raise ReportError(
                f"client {echo(sender)} has sent {n_received} reports since the last decision; "
                "it is heard again after the next"
            )
        batch = self._checked(
            ReportBatch(
                client_ids=[report.client_id],
                representations=as_row(report.representation),
                label_version=report.label_version,
            )
        )
        client_id = batch.client_ids[0]
        check_same_type(next(iter(self.inbox), client_id), client_id)
        n_samples = checked_count(report.n_samples)
        if client_id not in self.inbox and client_id not in self.registry:
            if len(self.registry) + len(self.newcomers) >= self.most_clients:
                raise ReportError(
                    f"client {echo(client_id)} is new, and there are {self.most_clients} already; if it is one of "
                    "yours, give the coordinator a larger most_clients"
                )
            self.newcomers.add(client_id)
        self._n_received[client_id] = n_received + 1
        self.registry.fix_width(batch.representations.shape[1])
        self.inbox[client_id] = batch.representations[0].astype(np.float32)
        self.inbox_counts[client_id] = n_samples

    def decide(self, step: int | None = None) -> Decision:
        """Act on the inbox and empty it; with no report nothing changes."""
        number = self._step(step)
        if not self.inbox:
            return self._quiet(number)
        ids = list(self.inbox)
        width = self.registry.label_widths[-1]
        rows = np.stack([np.pad(row, (0, width - row.size)) for row in self.inbox.values()])
        counts = checked_counts([self.inbox_counts.get(client_id, 0) for client_id in ids], len(ids))
        with self._all_or_nothing(ids):
            decision = self._act(ReportBatch(client_ids=ids, representations=rows, n_samples=counts), number)
            self.inbox, self.inbox_counts = {}, {}
        self._n_received, self.newcomers = {}, set()
        return decision

    def update(self, batch: ReportBatch, step: int | None = None) -> Decision:
        """Act on the reports of many clients at once, and on nothing else.

        Each client comes at most once, in any order; events are counted unless ``step`` says otherwise. A batch that
        cannot be accepted raises :class:`~fielding.errors.ReportError` and leaves everything as it was.
        """
        if self.inbox:
            raise ReportError(f"{len(self.inbox)} received reports wait; call decide() before update()")
        checked, number = self._checked(batch), self._step(step)
        if not len(checked.client_ids):
            return self._quiet(number)
        with self._all_or_nothing(checked.client_ids):
            return self._act(checked, number)

    def reward(self, gain: float) -> None:
        """Tell what the last event brought, in accuracy or minus in loss; triggers that do not learn pass it over.

        Call it at most once between two events, before the next one; only comparisons between events matter.
        """
        rewarded = getattr(self.policy.trigger, "rewarded", None)
        if callable(rewarded):
            self.memory = rewarded(self.memory, gain)

    def cluster_of(self, client_id: ClientId) -> int | None:
        """Return the stable id of a client's cluster, None if it never had data."""
        position = int(self.registry.membership[self.registry.row_of(client_id)])
        return None if position == UNASSIGNED or self.clusters is None else self.clusters.ids[position]

    def cluster_ids(self) -> Membership:
        """Return the stable cluster id of every client in the order of ``registry.client_ids``; -1 for none."""
        table = np.array([*(self.clusters.ids if self.clusters else ()), UNASSIGNED], dtype=np.int32)
        return table[self.registry.membership]

    def grow_labels(self, n_labels: int) -> int:
        """Begin a longer class list; older representations are padded with zeros. Return its version."""
        with self._all_or_nothing():
            version = self.registry.grow_labels(n_labels)
            if self.clusters is not None:
                extra = ((0, 0), (0, n_labels - self.clusters.centers.shape[1]))
                self.clusters = replace(
                    self.clusters,
                    centers=np.pad(self.clusters.centers, extra),
                    since_global=np.pad(self.clusters.since_global, extra),
                )
        return version

    # ---- how it is done ----------------------------------------------------------------------------------------

    @property
    def metric(self) -> Metric:
        """The distance that everything is decided by."""
        return metric_named(self.policy.metric)

    @property
    def robust(self) -> Metric | None:
        """The distance by which far members do not count for a center; None if all count."""
        return self.metric if self.policy.robust else None

    @contextmanager
    def _all_or_nothing(self, client_ids: Sequence[ClientId] = ()) -> Iterator[None]:
        """Leave everything as it was if acting on reports of these clients breaks off.

        Memory may end, Ctrl-C may come, a trigger of the user's own may raise; the same call can then be made again.
        """
        rows, state = self.registry.saved(client_ids), {name: getattr(self, name) for name in _STATE}
        try:
            yield
        except BaseException:
            self.registry.restore(rows)
            for name, value in state.items():
                setattr(self, name, value)
            raise

    def _checked(self, batch: ReportBatch) -> ReportBatch:
        width = self.registry.expected_width(batch.label_version)
        checked = checked_batch(batch, kind=self.policy.kind, width=width)
        self.registry.check_id_type(checked.client_ids)
        return replace(checked, n_samples=checked_counts(batch.n_samples, len(checked.client_ids)))

    def _step(self, step: int | None) -> int:
        return checked_step(self.n_events if step is None else step)

    def _quiet(self, step: int) -> Decision:
        """Return the decision that changes nothing."""
        ids = self.clusters.ids if self.clusters else ()
        return Decision(step=step, mixing=np.eye(len(ids) or 1), cluster_ids=ids, n_live=self._n_live())

    def _n_live(self) -> int:
        return int(self.clusters.live.sum()) if self.clusters else 0

    def _act(self, batch: ReportBatch, step: int) -> Decision:
        """Record the reports, move clients, and re-cluster if the trigger says so."""
        rows = self.registry.rows_for(batch.client_ids)
        was_active, n_before = self.registry.active[rows], self.registry.samples.of(rows)
        speaks = self.registry.record(rows, batch.representations, step=step, n_samples=batch.n_samples)
        decision = Decision(
            step=step,
            reported=_sorted(batch.client_ids),
            silenced=self._names(rows[was_active & ~speaks]),
            mixing=np.eye(len(self.clusters.ids) if self.clusters else 1),
        )
        if self.clusters is not None:
            reported = ReportedRows(rows, speaks, was_active=was_active, n_before=n_before)
            decision = self._adjust(decision, self.clusters, reported)
        elif speaks.any():
            decision = self._start(decision, np.sort(rows[speaks]))
        self.n_events += 1
        return replace(decision, cluster_ids=self.clusters.ids if self.clusters else (), n_live=self._n_live())

    def _start(self, decision: Decision, speaking: Counts) -> Decision:
        """Make the first clusters; all of them start from the one initial model."""
        clustering = self._clustering(None)
        ids = [self.next_id + label for label in range(clustering.n_clusters)]
        labels = in_order_of_first_member(clustering.labels)
        self.clusters = settle(self.registry, labels, ids, metric=self.metric, is_robust=self.policy.robust)
        self.next_id += len(ids)
        return replace(
            decision,
            started=True,
            joined=self._names(speaking),
            theta=self._theta(self.clusters),
            silhouettes=clustering.silhouettes,
            mixing=np.ones((len(ids), 1)),
        )

    def _adjust(self, decision: Decision, before: Clusters, reported: ReportedRows) -> Decision:
        """Move the clients that spoke with the centers frozen, then see whether that is enough."""
        membership, speaking = self.registry.membership, reported.speaking
        old = membership[speaking]
        drifted = Points(self.registry.representations, speaking)
        new = nearest_clusters(drifted, before.centers, metric=self.metric, current=old)
        if self.policy.noise_variance:
            n_samples = self.registry.samples.of(speaking)
            is_clear = clear_moves(
                drifted,
                before.centers,
                old,
                new,
                n_samples=n_samples,
                noise_variance=self.policy.noise_variance,
                has_shares=self.policy.has_shares,
            )
            new = np.where(is_clear, new, old)
        membership[speaking] = new
        touched = occurring(old) | occurring(new) | occurring(membership[reported.silent])
        centers = recompute_centers(self.registry, before.centers, sorted(touched), robust=self.robust)
        self.clusters = replace(before, centers=centers, live=live_clusters(self.registry, len(before.ids)))
        decision = replace(
            decision,
            moved=self._names(speaking[(old != new) & (old != UNASSIGNED)]),
            joined=self._names(speaking[old == UNASSIGNED]),
        )
        if not speaking.size:  # going silent alone never triggers
            return decision
        verdict, theta = self._verdict(before, self.clusters, reported.of_those(old == new))
        is_vetoed = verdict.fires and not self.may_regroup
        # What follows is then not the work of the arms that would have fired.
        self.memory = replace(verdict.memory, credited=(), fired=False) if is_vetoed else verdict.memory
        decision = replace(decision, shift=verdict.shift, theta=theta, threshold=verdict.threshold)
        return self._recluster(decision, self.clusters) if verdict.fires and self.may_regroup else decision

    def _verdict(self, before: Clusters, now: Clusters, stayed: tuple[Counts, Codes]) -> tuple[Verdict, float]:
        """Ask the trigger; also return theta."""
        rows, samples = self.registry.active_rows(), self.registry.samples
        has_floor = bool(getattr(self.policy.trigger, "noise_floor", False))
        theta = self._theta(now)
        movement = Movement(
            before=before.centers,
            after=now.centers,
            since_global=now.since_global,
            stayed_live=before.live & now.live,
            theta=theta,
            points=self.registry.active_points(),
            membership=self.registry.membership[rows],
            metric=self.metric,
            kind=self.policy.kind,
            resampled=samples.since_previous(rows, *stayed) if has_floor else None,
            resampled_since_global=samples.since_global(rows, self.registry.membership) if has_floor else None,
            # The spread of reports that are no shares shows their noise.
            noise_variance=self.policy.noise_variance if self.policy.has_shares else 0.0,
        )
        return self.policy.trigger.assess(movement, self.memory), theta

    def _recluster(self, decision: Decision, old: Clusters) -> Decision:
        """Group all active clients anew and say what each new cluster inherits."""
        clustering = self._clustering(old.centers[old.live])
        labels = in_order_of_first_member(clustering.labels)
        was = self.registry.membership[self.registry.active_rows()]
        heads = head_counts(was, labels, n_old=len(old.ids), n_new=clustering.n_clusters)
        ids = inherit_ids(heads, old.ids, self.next_id)
        self.next_id = max(self.next_id, max(ids) + 1)
        self.clusters = settle(self.registry, labels, ids, metric=self.metric, is_robust=self.policy.robust)
        mixing = mixing_matrix(
            heads[np.argsort(ids)],
            old_centers=old.centers,
            new_centers=self.clusters.centers,
            metric=self.metric,
            inherit=self.policy.inherit,
        )
        return replace(decision, reclustered=True, silhouettes=clustering.silhouettes, mixing=mixing)

    def _clustering(self, current: Matrix | None) -> Clustering:
        rng = stream(self.policy.seed, "cluster", self.n_events)
        points = self.registry.active_points()
        if self.policy.noise_variance and self.policy.has_shares:
            points = Points(root_shares(points.all()))
            current = None if current is None else root_shares(current)
        return self.policy.clusterer.cluster(
            points, metric=self.metric, rng=rng, current=current, robust=self.policy.robust
        )

    def _theta(self, clusters: Clusters) -> float:
        rng = stream(self.policy.seed, "theta", self.n_events)
        points = self.registry.active_points()
        return center_spacing(clusters.centers[clusters.live], points, metric=self.metric, rng=rng)

    def _names(self, rows: Counts) -> Sequence[ClientId]:
        """Return the ids of clients, given by row, in the order of ids."""
        return _sorted([self.registry.client_ids[row] for row in rows.tolist()])


def _sorted(client_ids: Sequence[ClientId]) -> Sequence[ClientId]:
    """Return the ids in rising order; themselves if they are, since a million need no copy."""
    in_order = all(one < other for one, other in pairwise(client_ids))  # type: ignore[operator]
    return client_ids if in_order else sorted(client_ids)
