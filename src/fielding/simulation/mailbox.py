"""What clients have to tell, until it is sent: whose reports travel when, and what they weigh."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.client.fleet import FleetReports
from fielding.methods.kinds import Hears
from fielding.simulation.observers import NOTHING, Observer

IsOnline: TypeAlias = Callable[[Counts], Mask]
"""Says who of some clients can be reached now."""

_SENT = ("sent_round", "sent_client")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Letters:
    """Reports that are sent.

    Parameters
    ----------
    clients
        Who reports, shape ``(n_reports,)``.
    representations
        What they say, shape ``(n_reports, n_features)``; of flags 1 for a client with data and 0 for one without.
    n_samples
        How many samples each sums up.
    n_passes
        Forward passes that each report cost its client.
    """

    clients: Counts
    representations: npt.NDArray[np.float32]
    n_samples: Counts
    n_passes: Counts


class Mailbox:
    """Holds back reports of clients that cannot be reached, or that nobody listens to before they train.

    Parameters
    ----------
    observer
        Watches the clients; None if nobody listens.
    hears
        Whose reports the method hears, and whether more than that they drifted. At the start all clients report.
    """

    def __init__(self, observer: Observer | None, hears: Hears) -> None:
        self._observer, self._hears = observer, hears
        self._unsent: Counts = NOTHING.clients
        self._pending = NOTHING
        self._sent: list[Counts] = []
        self._heard: Counts = NOTHING.clients

    def opened(self, round_index: int, is_online: IsOnline) -> Letters:
        """Let clients look at what arrived, and return what is sent before the round."""
        if self._observer is None:
            return self._letters(NOTHING)
        self._observer.hold(self._unsent)
        reports = self._observer.observe(round_index)
        online = is_online(reports.clients)
        self._unsent = reports.clients[~online]
        reports = _some(reports, online)
        if self._hears == "first":  # clients know that nobody listens any more
            is_new = ~np.isin(reports.clients, self._heard)
            self._heard = np.union1d(self._heard, reports.clients)
            return self._letters(_some(reports, is_new))
        if self._hears != "participants" or round_index == 0:
            return self._letters(reports)
        self._pending, self._unsent = reports, np.sort(np.concatenate([self._unsent, reports.clients]))
        return self._letters(NOTHING)

    def collected(self, clients: Counts, round_index: int) -> Letters:
        """Return what participants send with their models; the others keep theirs until they take part."""
        if self._hears != "participants":
            return self._letters(NOTHING)
        is_sent = np.isin(self._pending.clients, clients)
        reports = _some(self._pending, is_sent)
        self._pending = NOTHING
        if self._observer is not None and round_index:
            self._unsent = np.setdiff1d(self._unsent, reports.clients)
            self._sent.append(np.column_stack([np.full(reports.clients.size, round_index), reports.clients]))
        return self._letters(reports)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return who sent a report with its model, and when: what looking at the data again does not tell."""
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *self._sent])
        return {name: pairs[:, column].astype("<i8") for column, name in enumerate(_SENT)}

    def sent_in(self, round_index: int, arrays: dict[str, npt.NDArray[np.generic]]) -> Counts:
        """Return who sent a report with its model in a round, from the arrays of a checkpoint."""
        rounds, clients = (arrays.get(name, np.empty(0, dtype=np.int64)) for name in _SENT)
        return np.asarray(clients[rounds == round_index], dtype=np.int64)

    def _letters(self, reports: FleetReports) -> Letters:
        passes = 0 if self._observer is None else self._observer.passes
        representations = reports.representations
        if self._hears == "flags":
            representations = (reports.n_samples > 0).astype(np.float32)[:, np.newaxis]
        return Letters(
            clients=reports.clients,
            representations=representations,
            n_samples=reports.n_samples,
            n_passes=passes * reports.n_samples,
        )


def _some(reports: FleetReports, kept: Mask) -> FleetReports:
    """Return some of the reports."""
    if kept.all():
        return reports
    return FleetReports(
        clients=reports.clients[kept],
        representations=reports.representations[kept],
        n_samples=reports.n_samples[kept],
    )
