"""CFL: clusters split where clients pull their model in opposite directions, and never merge or move.

Sattler, Müller and Samek, "Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization", TNNLS 2020
(METHODS.md 7). Read :meth:`CFL.learn` first: when a cluster splits, and in which halves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask, Membership, Models
from fielding.config.options import number, one_of, whole
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import mean_model
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, Participation, draw_clients, is_sampled, plan_by_cluster, plan_probe
from fielding.methods.update_geometry import cosines, cosines_from, norms, products, scale_to_unit, update_deltas

SELF_TUNED = "self-tuned"
SMALLEST = 3  # clusters of fewer clients are never split


class CFL:
    """Splits a cluster whose model stands still while its clients still want to move it; never merges or moves.

    Parameters
    ----------
    eps1, eps2
        A cluster is split if its mean update is shorter than the one and its longest update is longer than the other.
        ``"self-tuned"``: shares of the longest mean update of a cluster, and of the longest update of a client, that
        were seen so far, so that they hold whatever the learning rate.
    eps1_share, eps2_share
        These shares; the defaults are about where the authors' 0.4 and 1.6 lie under their kind of training.
    gamma_max
        How far apart the halves must be: ``sqrt((1 - a) / 2)`` of the largest cosine ``a`` between them.
    start_after
        Rounds before the first split.
    participation
        ``"all"``: everybody trains in every round; ``"sampled"``: the participants of the run do, and clients are
        compared by their last updates; ``"auto"``: all, up to 200 clients.
    max_age
        How many rounds old a last update may be (only with ``"sampled"``).
    """

    def __init__(
        self,
        setting: MethodSetting,
        *,
        eps1: float | str = SELF_TUNED,
        eps2: float | str = SELF_TUNED,
        eps1_share: float = 0.3,
        eps2_share: float = 0.6,
        gamma_max: float = 0.1,
        start_after: int = 20,
        participation: Participation = "auto",
        max_age: int = 20,
    ) -> None:
        for name, eps in (("eps1", eps1), ("eps2", eps2)):
            if isinstance(eps, str) and eps != SELF_TUNED:
                raise OptionError(f"{name} is {echo(eps)}; give a number of at least 0, or {SELF_TUNED!r}")
            if not isinstance(eps, str):
                number(name, eps, most=np.inf)
        self._eps1, self._eps2, self._gamma_max = eps1, eps2, number("gamma_max", gamma_max)
        self._eps1_share = number("eps1_share", eps1_share)
        self._eps2_share = number("eps2_share", eps2_share)
        self._start_after = whole("start_after", start_after, least=0)
        whole("max_age", max_age, least=0)
        one_of("participation", participation, get_args(Participation))
        n_clients = len(setting.client_ids)
        self._is_sampled = is_sampled(participation, n_clients)
        self._parts = setting.parts
        if not self._is_sampled:
            self._parts = replace(setting.parts, participants=n_clients, strict_budget=False)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._tree = SplitTree(n_clients, setting.initial.size)
        self._last = LastUpdates(max_age if self._is_sampled else 0)
        # The longest mean update of a cluster and the longest update of a client so far.
        self._longest_mean = self._longest = 0.0
        self._round = 0

    @property
    def models(self) -> Models:
        """One row per leaf of the tree."""
        return self._cluster_models.models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined walk down to their leaf; whether all take part was settled at the start."""
        self._tree.grow(len(client_ids))
        if not self._is_sampled:
            self._parts = replace(self._parts, participants=len(client_ids))

    def plan(self, clients: Clients) -> TrainingPlan:
        """Bring clients that wait in a split cluster to their leaf, and choose participants."""
        self._round, tree = clients.round_index, self._tree
        # Waiting clients train the models on their way to a leaf, as many as train in a round.
        going = draw_clients(clients, clients.askable() & tree.waits(), self._parts.participants, purpose="newcomers")
        while going.size:
            updates = clients.train(plan_probe(going, tree.models, tree.split_at(going)))
            tree.walk(updates.clients, update_deltas(updates, tree.models))
            going = updates.clients[tree.waits()[updates.clients]]
        return plan_by_cluster(self._cluster_models, self.membership(), clients, self._parts, is_parallel=True)

    def learn(self, updates: Updates) -> None:
        """Split clusters that stand still, then let every cluster learn from its own members alone."""
        if not updates.clients.size:
            return
        last = self._last
        changes = update_deltas(updates, self.models)
        last.note(updates.clients, changes, self._round)
        row_of = self.membership()[last.clients]
        members = {row: np.flatnonzero(row_of == row) for row in np.unique(updates.start).tolist()}
        lengths = {row: float(norms(mean_model(last.changes[own])[np.newaxis])[0]) for row, own in members.items()}
        self._longest_mean = max(self._longest_mean, *lengths.values())
        self._longest = max(self._longest, float(norms(changes).max()))
        for row, own in members.items():
            self._split_if_stalled(row, own, lengths[row])
        self._cluster_models.learn(replace(updates, start=self.membership()[updates.clients].astype(np.int64)))
        if not self._is_sampled:
            last.forget()

    def _split_if_stalled(self, row: int, own: Counts, mean_length: float) -> None:
        """Split a cluster if its members (``own`` of the last updates) pull in opposite directions, hard enough.

        Both halves start from its model.
        """
        eps1 = self._eps1_share * self._longest_mean if isinstance(self._eps1, str) else self._eps1
        eps2 = self._eps2_share * self._longest if isinstance(self._eps2, str) else self._eps2
        if self._round < self._start_after or own.size < SMALLEST or mean_length >= eps1:
            return
        moved, who = self._last.changes[own], self._last.clients[own]
        if norms(moved).max() <= eps2:
            return
        is_second, gap = bipartition(moved)
        if gap <= self._gamma_max:
            return
        self._tree.split(
            row,
            (who[~is_second], who[is_second]),
            model=self.models[row],
            directions=np.stack([mean_model(scale_to_unit(moved[half])) for half in (~is_second, is_second)]),
        )
        n_before = self.models.shape[0]
        self._cluster_models.mix(np.eye(n_before)[[*range(n_before), row]])

    def membership(self) -> Membership:
        """Return the leaf of each client, -1 for those that still have to find theirs."""
        return self._tree.membership()

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the number of each leaf in the tree; a split makes two new ones."""
        return self._tree.leaves

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the models, the tree, and the updates that may still be compared."""
        state = {**self._cluster_models.arrays(), **self._tree.arrays(), **self._last.arrays()}
        return {}, {**state, "largest": np.array([self._longest_mean, self._longest])}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        for part in (self._cluster_models, self._tree, self._last):
            part.restore(arrays)
        longest = arrays["largest"].astype(np.float64).tolist()
        self._longest_mean, self._longest = longest[0], longest[-1]  # the former version wrote the first alone


def bipartition(updates: Models) -> tuple[Mask, float]:
    """Cut updates in two: the last two clusters of complete linkage on the cosines.

    Returns which updates are in the second half (the first update is in the first), and how far the halves are apart:
    ``sqrt((1 - a) / 2)`` of the largest cosine ``a`` between them, from 0 (alike) to 1 (opposite). ``updates``:
    float32, shape ``(n_updates, n_numbers)``, at least two; time grows with the square of their number.

    Examples
    --------
    >>> is_second, gap = bipartition(np.array([[1.0, 0.0], [-1.0, 0.1], [1.0, 0.1]], dtype=np.float32))
    >>> is_second.tolist(), round(gap, 2)
    ([False, True, False], 1.0)
    """
    # Here and not above: scipy costs more than all of Fielding to import.
    from scipy.cluster.hierarchy import cut_tree, linkage

    likeness = cosines_from(products(updates, updates))
    # Not below 0: of equal updates, rounding alone would make a distance of less, which scipy refuses.
    distances = np.maximum(0.0, 1.0 - likeness[np.triu_indices(likeness.shape[0], k=1)])
    labels = cut_tree(linkage(distances, method="complete"), n_clusters=[2])[:, 0]
    is_second = np.asarray(labels != labels[0])
    across = float(likeness[np.ix_(is_second, ~is_second)].max())
    return is_second, float(np.sqrt(max(0.0, 1.0 - across) / 2.0))


class LastUpdates:
    """Keeps one update per client, and none that is older than so many rounds.

    ``max_age``: rounds after which an update is dropped; 0 keeps those of the newest round alone. ``clients``,
    ``rounds``: whose update, rising, and of which round, shape ``(n_updates,)``. ``changes``: float32, shape
    ``(n_updates, n_parameters)``.

    Examples
    --------
    >>> last = LastUpdates(1)
    >>> last.note(np.array([4, 7]), np.zeros((2, 3), dtype=np.float32), 0)
    >>> last.note(np.array([4]), np.ones((1, 3), dtype=np.float32), 1)
    >>> last.note(np.array([2]), np.ones((1, 3), dtype=np.float32), 2)
    >>> last.clients.tolist(), last.rounds.tolist()
    ([2, 4], [2, 1])
    """

    def __init__(self, max_age: int) -> None:
        self._max_age = max_age
        self.forget()

    def forget(self) -> None:
        """Drop everything."""
        self.clients: Counts = np.empty(0, dtype=np.int64)
        self.rounds: Counts = np.empty(0, dtype=np.int64)
        self.changes: Models = np.empty((0, 0), dtype=np.float32)

    def note(self, clients: Counts, changes: Models, round_index: int) -> None:
        """Take in the updates of a round, each client once, and drop what they replace and what is too old."""
        kept = (round_index - self.rounds <= self._max_age) & ~np.isin(self.clients, clients)
        everyone = np.concatenate([self.clients[kept], clients])
        order = np.argsort(everyone, kind="stable")
        rounds = np.concatenate([self.rounds[kept], np.full(clients.size, round_index, dtype=np.int64)])
        self.clients, self.rounds = everyone[order], rounds[order]
        self.changes = np.concatenate([self.changes[kept], changes])[order] if kept.any() else changes[order]

    def arrays(self) -> Arrays:
        """Return everything, for a checkpoint."""
        return {f"last/{name}": getattr(self, name) for name in ("clients", "rounds", "changes")}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.clients, self.rounds = (arrays[f"last/{name}"].astype(np.int64) for name in ("clients", "rounds"))
        self.changes = arrays["last/changes"].astype(np.float32)


class SplitTree:
    """A node per cluster that is or was; leaves are the clusters of today, one row of the models each.

    The root is node 0; split number ``s`` makes the nodes ``2 s + 1`` and ``2 s + 2`` of a leaf. A client that stays in
    a node that was split has no cluster until it walked down.

    Examples
    --------
    >>> tree = SplitTree(4, 2)
    >>> model, directions = np.zeros(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    >>> tree.split(0, (np.array([0, 2]), np.array([3])), model=model, directions=directions)
    >>> tree.membership().tolist(), tree.leaves
    ([0, -1, 0, 1], (1, 2))
    """

    def __init__(self, n_clients: int, n_numbers: int) -> None:
        self.leaves: tuple[int, ...] = (0,)
        self._node: Counts = np.zeros(n_clients, dtype=np.int64)
        self._split_of: dict[int, int] = {}
        self.models: Models = np.empty((0, n_numbers), dtype=np.float32)
        self._directions: Models = np.empty((0, 0), dtype=np.float32)

    def grow(self, n_clients: int) -> None:
        """Let clients that joined begin in the root; if that was split, they have to walk down."""
        self._node = np.pad(self._node, (0, n_clients - self._node.size))

    def membership(self) -> Membership:
        """Return the row of each client's leaf, -1 for those that have to walk down."""
        row_of = np.full(2 * len(self._split_of) + 1, -1, dtype=np.int32)
        row_of[list(self.leaves)] = np.arange(len(self.leaves))
        return row_of[self._node]

    def waits(self) -> Mask:
        """Return which clients have to walk down."""
        return np.asarray(self.membership() < 0)

    def split(self, row: int, parts: tuple[Counts, Counts], *, model: Models, directions: Models) -> None:
        """Split a leaf in two; the first keeps its row, the second gets a new one at the end.

        ``parts``: the clients of each half; others of the leaf have to walk down. ``model``, ``directions``: what was
        trained there, and the direction in which each half changed it, shape ``(2, n_parameters)``.
        """
        children = (2 * len(self._split_of) + 1, 2 * len(self._split_of) + 2)
        for child, members in zip(children, parts, strict=True):
            self._node[members] = child
        self._split_of[self.leaves[row]] = len(self._split_of)
        self.leaves = (*self.leaves[:row], children[0], *self.leaves[row + 1 :], children[1])
        self.models = np.concatenate([self.models, model[np.newaxis]])
        before = self._directions if self._directions.size else np.empty((0, directions.shape[1]), dtype=np.float32)
        self._directions = np.concatenate([before, directions.astype(np.float32)])

    def split_at(self, clients: Counts) -> Counts:
        """Return the row of ``models`` that waiting clients have to train to get one node further."""
        return np.array([self._split_of[node] for node in self._node[clients].tolist()], dtype=np.int64)

    def walk(self, clients: Counts, changes: Models) -> None:
        """Take waiting clients one node down, each to the half that changed the model more as it did (ties: the first).

        ``changes`` are those of the model of each client's node, shape ``(n_clients, n_parameters)``.
        """
        splits = self.split_at(clients)
        for at in np.unique(splits).tolist():
            own = np.flatnonzero(splits == at)
            likeness = cosines(changes[own], self._directions[2 * at : 2 * at + 2])
            self._node[clients[own]] = 2 * at + 1 + likeness.argmax(axis=1)

    def arrays(self) -> Arrays:
        """Return everything, for a checkpoint."""
        parents = sorted(self._split_of, key=self._split_of.__getitem__)
        return {
            "tree/node": self._node.copy(),
            "tree/leaves": np.array(self.leaves, dtype=np.int64),
            "tree/parents": np.array(parents, dtype=np.int64),
            "tree/models": self.models,
            "tree/directions": self._directions,
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._node, leaves, parents = (
            arrays[f"tree/{name}"].astype(np.int64) for name in ("node", "leaves", "parents")
        )
        self.leaves = tuple(leaves.tolist())
        self._split_of = {parent: at for at, parent in enumerate(parents.tolist())}
        self.models, self._directions = (arrays[f"tree/{name}"].astype(np.float32) for name in ("models", "directions"))


KIND = MethodKind(
    summary="clusters split where clients pull their model in opposite directions; nobody ever moves (CFL)",
    sends="nothing, but up to 200 clients all train in every round; newcomers train old models to find theirs",
    build=CFL,
)
