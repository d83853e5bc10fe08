"""CFL: clusters split where clients pull their model in opposite directions (Sattler et al., 2020; METHODS.md 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from fielding._typing import ClientId, Counts, Json, Membership, Models
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import mean_model
from fielding.methods.bipartition import bipartition
from fielding.methods.gram import norms, unit_rows
from fielding.methods.last_updates import LastUpdates
from fielding.methods.method import MethodSetting, plan_by_cluster
from fielding.methods.option_checks import number, one_of, whole
from fielding.methods.participation import Participation, is_sampled
from fielding.methods.probing import changes, drawn, probe_plan
from fielding.methods.split_tree import SplitTree

SELF_TUNED = "self-tuned"
STALLED, STRAYING = 0.1, 6.0
"""Self-tuned thresholds: ``eps1`` as a share of the longest mean update seen, ``eps2`` as a multiple of ``eps1``."""
SMALLEST = 3
"""Clusters of fewer clients are never split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of :class:`CFL`, all valid."""

    eps1: float | str
    eps2: float | str
    gamma_max: float
    start_after: int
    participation: Participation
    max_age: int

    def __post_init__(self) -> None:
        for name in ("eps1", "eps2"):
            _check_threshold(name, getattr(self, name))
        number("gamma_max", self.gamma_max)
        for name in ("start_after", "max_age"):
            whole(name, getattr(self, name), least=0)
        one_of("participation", self.participation, get_args(Participation))

    def thresholds(self, largest: float) -> tuple[float, float]:
        """Return how short the mean update and how long the longest must be for a split.

        Parameters
        ----------
        largest
            The length of the longest mean update that was ever seen.
        """
        eps1 = STALLED * largest if isinstance(self.eps1, str) else self.eps1
        return eps1, STRAYING * eps1 if isinstance(self.eps2, str) else self.eps2


def _check_threshold(name: str, value: object) -> None:
    if isinstance(value, str) and value != SELF_TUNED:
        raise OptionError(f"{name} is {echo(value)}; give a number of at least 0, or {SELF_TUNED!r}")
    if not isinstance(value, str):
        number(name, value, most=np.inf)


class CFL:
    """Splits a cluster whose model stands still while its clients still want to move it; never merges or moves.

    Parameters
    ----------
    setting
        What it is made of.
    eps1, eps2
        A cluster is split if its mean update is shorter than the one and its longest update is longer than the other.
        ``"self-tuned"``: 0.1 times the longest mean update seen so far in any cluster, and 6 times ``eps1``.
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

    def __init__(  # noqa: PLR0913 - each is an option with a default
        self,
        setting: MethodSetting,
        *,
        eps1: float | str = SELF_TUNED,
        eps2: float | str = SELF_TUNED,
        gamma_max: float = 0.1,
        start_after: int = 20,
        participation: Participation = "auto",
        max_age: int = 20,
    ) -> None:
        self._options = Options(
            eps1=eps1,
            eps2=eps2,
            gamma_max=gamma_max,
            start_after=start_after,
            participation=participation,
            max_age=max_age,
        )
        n_clients = len(setting.client_ids)
        self._is_sampled = is_sampled(participation, n_clients)
        self._parts = setting.parts
        if not self._is_sampled:
            self._parts = replace(setting.parts, participants=n_clients, strict_budget=False)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._tree = SplitTree(n_clients, setting.initial.size)
        self._last = LastUpdates(max_age if self._is_sampled else 0)
        self._largest = 0.0
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
        self._round = clients.round_index
        self._walk_down(clients)
        return plan_by_cluster(self._cluster_models, self.membership(), clients, self._parts)

    def learn(self, updates: Updates) -> None:
        """Split clusters that stand still, then let every cluster learn from its own members alone."""
        if not updates.clients.size:
            return
        self._last.note(updates.clients, changes(updates, self.models), self._round)
        members = self._members(np.unique(updates.start))
        lengths = {row: norms(mean_model(self._last.changes[own])[np.newaxis])[0] for row, own in members.items()}
        self._largest = max(self._largest, *map(float, lengths.values()))
        for row, own in members.items():
            self._split_if_stalled(row, own, float(lengths[row]))
        self._cluster_models.learn(replace(updates, start=self.membership()[updates.clients].astype(np.int64)))
        if not self._is_sampled:
            self._last.forget()

    def membership(self) -> Membership:
        """Return the leaf of each client, -1 for those that still have to find theirs."""
        return self._tree.membership()

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the number of each leaf in the tree; a split makes two new ones."""
        return self._tree.leaves

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the models, the tree, and the updates that may still be compared."""
        state = {**self._cluster_models.arrays(), **self._tree.arrays(), **self._last.arrays()}
        return {}, {**state, "largest": np.array([self._largest])}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        for part in (self._cluster_models, self._tree, self._last):
            part.restore(arrays)
        self._largest = float(arrays["largest"].astype(np.float64)[0])

    def _members(self, rows: Counts) -> dict[int, Counts]:
        """Return where the last updates of each cluster stand."""
        row_of = self.membership()[self._last.clients]
        return {row: np.flatnonzero(row_of == row) for row in rows.tolist()}

    def _split_if_stalled(self, row: int, own: Counts, mean_length: float) -> None:
        """Split a cluster if its members pull in opposite directions, hard enough; both halves start from its model."""
        eps1, eps2 = self._options.thresholds(self._largest)
        if self._round < self._options.start_after or own.size < SMALLEST or mean_length >= eps1:
            return
        moved = self._last.changes[own]
        if norms(moved).max() <= eps2:
            return
        halves = bipartition(moved)
        if halves.gap <= self._options.gamma_max:
            return
        masks = (~halves.is_second, halves.is_second)
        who = self._last.clients[own]
        self._tree.split(
            row,
            (who[masks[0]], who[masks[1]]),
            model=self.models[row],
            directions=np.stack([mean_model(unit_rows(moved[mask])) for mask in masks]),
        )
        n_before = self.models.shape[0]
        self._cluster_models.mix(np.eye(n_before)[[*range(n_before), row]])

    def _walk_down(self, clients: Clients) -> None:
        """Let waiting clients train the models on their way to a leaf, as many as train in a round."""
        going = drawn(clients, clients.askable() & self._tree.waits(), self._parts.participants, purpose="newcomers")
        while going.size:
            updates = clients.train(probe_plan(going, self._tree.models, self._tree.split_at(going)))
            self._tree.walk(updates.clients, changes(updates, self._tree.models))
            going = updates.clients[self._tree.waits()[updates.clients]]
