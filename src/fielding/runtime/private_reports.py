"""Stages 1 to 4 in private: clients report noised counts or sums by a schedule that does not depend on their data."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Mask, Matrix, Models
from fielding.client.drift import Never
from fielding.client.drift.detectors import VectorDetector
from fielding.client.fleet import FleetReports
from fielding.client.privacy.counts import count_samples, first_reference, noised_vectors, unit_of
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.rule import PrivacyRule
from fielding.client.representation.representation import Representation
from fielding.distance import metric_named
from fielding.errors import CheckpointError
from fielding.runtime.observe import NOTHING, Arrays, LookingCosts, SampleObserver, Sight
from fielding.runtime.store import Arriving, SampleStore
from fielding.runtime.train import NoiseOf

NEVER_TOLD = -1  # in place of the number of samples that a client reported


class PrivateObserver(SampleObserver):
    """Clients report noised counts of their training window when their turn comes, whatever their data are.

    The first report of a client goes out as soon as it has samples, later ones by :class:`PrivacyRule`; each is written
    into the ledger first. How many samples a client has is public: without any it says so at once. A report that could
    not be sent goes out again as it was, which tells nothing new.

    ``client_ids``: as the ledger knows them. ``is_whole``: as in :class:`SampleObserver`.
    """

    def __init__(
        self,
        windows: Arriving,
        representation: Representation,
        *,
        rule: PrivacyRule,
        sight: Sight,
        ledger: PrivacyLedger,
        client_ids: Sequence[ClientId],
        noise_of: NoiseOf,
        is_whole: bool = True,
    ) -> None:
        detector = VectorDetector(drift_test=Never(), metric=metric_named("l2"))
        super().__init__(windows, representation, detector=detector, sight=sight, is_whole=is_whole)
        self._rule, self._ledger, self._ids, self._noise_of = rule, ledger, client_ids, noise_of
        self._unit = unit_of(representation)
        self._due = [ledger.next_round(client) for client in client_ids]
        self._n_reported: Counts = np.full(windows.n_clients, NEVER_TOLD, dtype=np.int64)
        self._noised: Matrix = np.zeros((windows.n_clients, 0))
        self._held: Counts = NOTHING.clients

    @property
    def is_active(self) -> Mask:
        """Which clients had samples when they reported last, shape ``(n_clients,)``."""
        return np.asarray(self._n_reported > 0)

    def share(self, model: Models, key: str = "") -> None:
        """Let clients see their samples with a model from now on; they report by it when their turn comes."""
        if self.looked_with and self.looked_with != key:
            self._sight.forget()
            self._version = ()
        self._sight.model, self.looked_with = model, key
        self._n_to_send = model.size

    def hold(self, clients: Counts) -> None:
        """Let clients send their last report again in the next round, if they made one."""
        self._held = clients[self._n_reported[clients] != NEVER_TOLD]

    def observe(self, round_index: int) -> FleetReports:
        """Return the reports of clients whose turn it is, and those that were held."""
        self.looked = LookingCosts()
        if self.awaits_model:
            return NOTHING
        held, self._held = self._held, NOTHING.clients
        version = self._windows.version(round_index)
        if version != self._version:
            self._look_at_arrivals(round_index)
            self._version = version
        has = self._windows.training(round_index).sizes > 0
        is_due = has & np.array([due is None or due <= round_index for due in self._due], dtype=np.bool_)
        gone = np.flatnonzero(self.is_active & ~has)
        self._n_reported[gone] = 0
        reporting = self._report(np.flatnonzero(is_due), round_index)
        told = self.told(np.unique(np.concatenate([reporting, gone, held])))
        if self.reference is not None:  # clients that look for the first time are sent the model, and this
            looking = self.looked.clients
            n_sent = np.where(self._is_equipped[looking], 0, self._n_to_send + self.reference.size)
            self.looked = replace(self.looked, received=n_sent)
            self._is_equipped[looking] = True
        return told

    def told(self, clients: Counts) -> FleetReports:
        """Return what some clients, rising, reported last."""
        if not clients.size:
            return NOTHING
        self.tallies, n_samples = self._noised[clients], self._n_reported[clients]
        reference = self._known_reference(self.tallies)
        vectors = noised_vectors(self._representation, self.tallies, n_samples, reference).astype(np.float32)
        return FleetReports(clients=clients, representations=vectors, n_samples=n_samples)

    def compare_last_with_reference(self) -> None:
        """Do nothing: no report is compared with the last one."""

    def _known_reference(self, tallies: Matrix) -> npt.NDArray[np.float64]:
        """Return what windows are compared with: what all clients told at the start, or what these tell."""
        known = self.reference
        reference = first_reference(self._representation, tallies) if known is None else known
        if self._is_whole:
            self.reference = reference
        return np.asarray(reference)

    def _report(self, clients: Counts, round_index: int) -> Counts:
        """Return which of some clients may report, with new noise on the counts or sums of their windows."""
        if not clients.size:
            return clients
        rows, sizes = self._windows.training(round_index).of(clients)
        # A store may show a sample longer than the rule knows: at the end of a trace, or while its clock stands still.
        is_recent = self._windows.rounds(rows) > round_index - self._rule.window
        owner = np.repeat(np.arange(clients.size), sizes)
        rows, sizes = rows[is_recent], np.bincount(owner[is_recent], minlength=clients.size)
        words = [self._noise_of(client, round_index) for client in clients.tolist()]
        later = [
            self._rule.next_round(round_index, self._due[client], one)
            for client, one in zip(clients.tolist(), words, strict=True)
        ]
        counts = count_samples(self._representation, self._sight.of(rows, sizes), self._rule.max_norm)
        if self._noised.shape[1] != counts.shape[1]:
            self._noised = np.zeros((self._windows.n_clients, counts.shape[1]))
        wanted = np.flatnonzero(sizes)
        granted = self._ledger.spend([(self._ids[clients[at]], later[at]) for at in wanted.tolist()], round_index)
        chosen = wanted[np.array(granted, dtype=np.bool_)]
        for at in chosen.tolist():
            client = int(clients[at])
            drawn = self._rule.draw_noise(counts.shape[1], self._unit, words[at])
            self._noised[client] = (counts[at] + drawn) / self._unit
            self._n_reported[client], self._due[client] = sizes[at], later[at]
        return clients[chosen]

    # ---- checkpoints of a device -----------------------------------------------------------------------------------

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what was said last; when the next turn comes stands in the ledger."""
        looks = self._sight.arrays()
        return {
            **looks,
            "watch.version": np.array(self._version, dtype=np.int64),
            "watch.model": np.frombuffer(self.looked_with.encode(), dtype=np.uint8),
            "watch.noised": self._noised,
            "watch.n_samples": self._n_reported,
        }

    def resume(self, arrays: Arrays) -> None:
        """Take over what :meth:`state` gave."""
        try:
            self._sight.restore(arrays)
            self._version = tuple(int(one) for one in arrays["watch.version"].tolist())
            self.looked_with = arrays["watch.model"].tobytes().decode()
            noised, n_reported = arrays["watch.noised"], arrays["watch.n_samples"]
            if noised.shape[:1] != n_reported.shape or n_reported.shape != self._n_reported.shape:
                raise ValueError("its columns differ in length")
            self._noised, self._n_reported = noised.astype(np.float64), n_reported.astype(np.int64)
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"what was saved describes no private reports ({error}); start anew") from None


def count_labels(store: SampleStore, clients: Counts, round_index: int) -> Counts:
    """Return the label counts of the windows of some clients, shape ``(n_clients, n_labels)``."""
    rows, sizes = store.training(round_index).of(clients)
    labels, owner = store.labels(rows), np.repeat(np.arange(clients.size), sizes)
    is_known = labels >= 0
    place = owner[is_known] * store.n_classes + labels[is_known]
    counted = np.bincount(place, minlength=clients.size * store.n_classes)
    return counted.astype(np.int64).reshape(clients.size, store.n_classes)
