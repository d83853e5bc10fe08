"""Selection of participants in a run: a selector and what it remembers, for any number of clusters."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Mask, Matrix, Vector
from fielding.distance import Kind, checked_kind, metric_named
from fielding.errors import CheckpointError, InputError
from fielding.federation.ledger import added_clients
from fielding.federation.selection.selector import (
    Arrays,
    Candidates,
    Feedback,
    Known,
    Learner,
    SelectionMemory,
    Selector,
    Tuner,
)

_REPRESENTATIONS, _HAS_REPORTED = "representations", "has_reported"


class Selection:
    """Chooses participants round after round, for any method and any number of clusters.

    Clients are remembered over all clusters; what belongs to a cluster (exploration, pace) has a row of its own, and
    a new cluster takes the row of its largest parent. A selector that needs nothing of this costs nothing.

    ``n_clients``: how many clients there are; they are known by their index. More may come: :meth:`grow`. ``kind``:
    what representations are: a row of zeros says that a client has gone silent only if they are histograms.

    Examples
    --------
    >>> from fielding.federation.selection.selector import Uniform
    >>> selection = Selection(Uniform(), 9)
    >>> candidates = Candidates(clients=np.array([3, 5, 8]), draws=np.array([9, 2, 4], dtype=np.uint64))
    >>> selection.choose(candidates, 2, cluster=0, round_index=0).tolist()
    [5, 8]
    >>> selection.steps(np.array([5, 8]), n_steps=20) is None
    True
    """

    def __init__(self, selector: Selector, n_clients: int, *, metric: str = "l1", kind: Kind = "histogram") -> None:
        self._selector, self._n_clients = selector, added_clients(0, n_clients)
        # Asked once: the answer costs more than a uniform choice.
        self._learner = selector if isinstance(selector, Learner) else None
        self._tuner = selector if isinstance(selector, Tuner) else None
        self._metric, self._kind = metric_named(metric), checked_kind(kind)
        self._memory = SelectionMemory(
            self._n_clients, clients=selector.client_memory, clusters=selector.cluster_memory
        )
        self._representations: npt.NDArray[np.float32] | None = None
        self._has_reported: Mask = np.zeros(self._n_clients if selector.needs_distances else 0, dtype=np.bool_)

    @property
    def needs_reports(self) -> bool:
        """Whether clients have to report even to a method that does not listen."""
        return self._selector.needs_reports

    @property
    def looks_at_members(self) -> bool:
        """Whether it matters to a choice which other clients are in the cluster."""
        return self._learner is not None or self._selector.needs_distances

    @property
    def ranks_all(self) -> bool:
        """Whether what a participant does depends on the participants of all clusters."""
        return self._tuner is not None

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined: never tried, without a report; the others stay what they were.

        OptionError if there would be fewer clients than before.
        """
        n_new = added_clients(self._n_clients, n_clients)
        self._n_clients += n_new
        self._memory.grow_clients(self._n_clients)
        if self._selector.needs_distances:
            self._has_reported = np.pad(self._has_reported, (0, n_new))
        if self._representations is not None:
            self._representations = np.pad(self._representations, ((0, n_new), (0, 0)))

    def note_reports(self, clients: Counts, representations: Floats, *, n_samples: Counts | None = None) -> None:
        """Take in reports, as far as the selector needs them.

        ``clients``, ``representations``: the clients that reported, each once, shape ``(n_reports,)``, and one row for
        each.
        """
        if self._learner is not None:
            self._learner.note_reports(clients, n_samples, self._memory)
        if self._selector.needs_distances and clients.size:
            if self._representations is None:
                self._representations = np.zeros((self._n_clients, representations.shape[1]), dtype=np.float32)
            wanted = (clients.size, self._representations.shape[1])
            if representations.shape != wanted:
                raise InputError(f"representations have shape {representations.shape}, not {wanted}; give one row each")
            self._representations[clients] = representations
            self._has_reported[clients] = (self._kind == "vector") | representations.any(axis=1)

    def choose(
        self, candidates: Candidates, n_wanted: int, *, cluster: int, round_index: int, members: Counts | None = None
    ) -> Counts:
        """Return the clients that train for a cluster; nothing is remembered of it until there is feedback.

        Different clients out of the candidates, rising. ``cluster``, ``round_index``: the row of the cluster, and the
        round now, from 0. ``members``: all active members of the cluster, whether or not they can be asked; the
        candidates by default.
        """
        if self._learner is not None:
            everyone = candidates.clients
            if members is not None:  # the clients of both lists, rising; faster than sorting them
                is_in = np.zeros(self._n_clients, dtype=np.bool_)
                is_in[members] = is_in[everyone] = True
                everyone = np.flatnonzero(is_in)
            known = Known(
                round_index=round_index,
                clients=self._memory.clients,
                cluster=self._memory.row(cluster),
                members=everyone,
            )
            candidates = replace(candidates, known=known)
        if self._selector.needs_distances:
            group = candidates.clients if members is None else members
            candidates = replace(candidates, distances=self._distances(candidates.clients, group))
        return self._selector.select(candidates, n_wanted)

    def feedback(self, feedback: Feedback) -> None:
        """Take in how training went."""
        if self._learner is not None:
            self._memory.grow(int(feedback.trained_clusters.max(initial=-1)) + 1)
            self._learner.learn(feedback, self._memory)

    def steps(self, clients: Counts, *, n_steps: int, n_kept: int | None = None) -> Counts | None:
        """Return the local steps of each participant of a round; None if all do the same.

        ``clients``: all participants of the round, over all clusters, as they were chosen. ``n_kept``: how many answers
        are waited for; all by default.
        """
        return None if self._tuner is None else self._tuner.steps(clients, n_steps, n_kept, self._memory)

    def upload_shares(self, clients: Counts) -> Vector | None:
        """Return the share of its update that each participant sends; None if all send everything."""
        return None if self._tuner is None else self._tuner.upload_shares(clients, self._memory)

    def inherit(self, mixing: Matrix) -> None:
        """Let every new cluster go on like its largest parent, by their shares (ties: the lower row)."""
        self._memory.inherit(mixing)

    def arrays(self) -> Arrays:
        """Return everything that decides what is chosen next, for a checkpoint."""
        kept: Arrays = self._memory.arrays()
        if self._selector.needs_distances and self._representations is not None:
            kept[_REPRESENTATIONS] = self._representations.copy()
            kept[_HAS_REPORTED] = self._has_reported.copy()
        return kept

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, bit for bit."""
        self._memory.restore(arrays)
        self._representations = None
        self._has_reported = np.zeros_like(self._has_reported)
        if self._selector.needs_distances and _REPRESENTATIONS in arrays:
            rows = arrays[_REPRESENTATIONS].astype(np.float32)
            if rows.shape[0] != self._n_clients:
                raise CheckpointError(
                    f"the checkpoint has representations of {rows.shape[0]} clients, not {self._n_clients}; "
                    "resume with the same clients"
                )
            self._representations, self._has_reported = rows, arrays[_HAS_REPORTED].astype(np.bool_)

    def _distances(self, clients: Counts, members: Counts) -> Vector:
        """Return how far clients lie from the mean of the members; infinite for those that are not known."""
        distances = np.full(clients.size, np.inf)
        known, known_members = self._has_reported[clients], members[self._has_reported[members]]
        if self._representations is not None and known.any() and known_members.size:
            center = self._representations[known_members].mean(axis=0, dtype=np.float64)
            rows = self._representations[clients[known]].astype(np.float64)
            distances[known] = self._metric.between(rows, center[np.newaxis])[:, 0]
        return distances
