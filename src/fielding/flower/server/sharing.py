"""The server's side of the shared model: when it is frozen, which clients hold it, what reports are relative to."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Models, Vector
from fielding.client.privacy.counts import first_reference, noised_vectors
from fielding.client.report import checked_rows
from fielding.client.report_rule import ReportRule
from fielding.client.representation.representation import Representation
from fielding.config.keys import Config
from fielding.engine.plugins import GLOBAL, file_model, privacy_of
from fielding.errors import CheckpointError, ReportError
from fielding.flower.wire.orders import Report, SharedView, WorkRule, digest_of
from fielding.training.layout import Layout

NOTHING, MODEL, ALL = 0, 1, 2  # what a client holds: nothing, the model, or the model and the reference
_NAMES = ("shared.model", "shared.reference", "shared.held")
_LOG = logging.getLogger(__name__)


class Sharing:
    """Sends the shared model with the next order to each client, and makes vectors of the sums that come back first.

    Reports are relative to the sums over all windows at the start, which no client knows then: it sends the sums of its
    own window, and the server makes the vector. The sums over all go with the next orders, and from then on clients
    report vectors. Clients that answered the first exchange with the model count.

    Parameters
    ----------
    layout, work
        Of the shared model, for clients.
    rounds, model
        The mean of all models is shared after so many rounds, unless a model is shared from the start.
    is_private
        Whether sums carry noise.
    """

    def __init__(
        self,
        representation: Representation,
        *,
        layout: Layout,
        work: WorkRule,
        rounds: int = 1,
        model: Models | None = None,
        is_private: bool = False,
    ) -> None:
        self._is_private = is_private
        self._representation, self._layout, self._work, self._rounds = representation, layout, work, rounds
        self._model: Models | None = None
        self._reference: Vector | None = None
        self._key = ""
        self._held: Counts = np.empty(0, dtype=np.int64)
        self._pending: dict[int, Report] = {}
        if model is not None:
            self.share(model)

    def is_time(self, n_done: int) -> bool:
        """Return whether clients wait for a model that is due after so many rounds."""
        return self._model is None and n_done >= self._rounds

    @property
    def is_starting(self) -> bool:
        """Whether a model is shared, but no client has told yet how it sees its samples."""
        return self._model is not None and self._reference is None

    def share(self, model: Models) -> None:
        """Freeze a model; it goes with the next order to each client."""
        self._model, self._reference = np.array(model, dtype=np.float32), None
        self._name()
        self._held[:] = NOTHING

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined."""
        self._held = np.pad(self._held, (0, n_clients - self._held.size), constant_values=NOTHING)

    # ---- orders ----------------------------------------------------------------------------------------------------

    def view_for(self, client: int | None) -> SharedView | None:
        """Return what an order to a client, None for an unknown one, says of the shared model; None: none yet."""
        if self._model is None:
            return None
        held = NOTHING if client is None else int(self._held[client])
        view = SharedView(key=self._key, reference=None if held == ALL else self._reference)
        if held != NOTHING:
            return view
        return replace(view, model=self._model, layout=self._layout, work=self._work)

    def bare_view(self) -> SharedView | None:
        """Return which model is shared, without it; None: there is none yet."""
        return None if self._model is None else SharedView(key=self._key)

    def note(self, client: int, holds: str | None) -> None:
        """Take note of what a client says that it holds; None: nothing new."""
        if holds is not None and self._key:
            is_model = holds.partition(".")[0] == self._key.partition(".")[0]
            all_of_it = ALL if self._reference is not None else MODEL
            self._held[client] = all_of_it if holds == self._key else MODEL if is_model else NOTHING

    # ---- reports ---------------------------------------------------------------------------------------------------

    def accept(self, client: int, report: Report) -> Report | None:
        """Return a report as the coordinator wants it; None if it has to wait, or counts for nothing.

        A vector before there is a reference cannot be relative to it, and is refused.
        """
        if report.tally is None:
            if report.is_silent or self._reference is not None:
                return report
            _LOG.warning("client %d reports a vector before anybody knows what it is relative to: refused", client)
            return None
        if self._model is None:
            return None
        if self._reference is None:
            self._pending[client] = report
            return None
        return self._as_vector(client, report)

    def settle(self) -> list[tuple[int, Report]]:
        """Return the first reports, once an exchange that brought some is over: their sums are the reference."""
        if not self._pending:
            return []
        pending, self._pending = dict(sorted(self._pending.items())), {}
        tallies = {client: one.tally for client, one in pending.items() if one.tally is not None}
        # Windows described with the same model have equally many sums; clients with others did something else.
        width, _ = Counter(tally.size for tally in tallies.values()).most_common(1)[0]
        fitting: dict[int, Vector] = {}
        for client, tally in tallies.items():
            if tally.size != width:
                _LOG.warning("client %d sums up %d numbers, others %d: refused", client, tally.size, width)
            elif (
                self._vector(client, pending[client], tally) is not None
            ):  # by itself it makes a vector that may be reported
                fitting[client] = tally
        if not fitting:
            return []
        rows = np.stack(list(fitting.values()))
        reference = first_reference(self._representation, rows) if self._is_private else np.asarray(rows.sum(axis=0))
        if not np.isfinite(reference).all():
            _LOG.warning("the sums of %d clients add up to infinity: all are refused", len(fitting))
            return []
        self._reference = reference
        self._name()
        found = [(client, self._as_vector(client, pending[client])) for client in fitting]
        return [(client, report) for client, report in found if report is not None]

    def _as_vector(self, client: int, report: Report) -> Report | None:
        if report.tally is None or self._reference is None:
            return None
        vector = self._vector(client, report, self._reference)
        return None if vector is None else replace(report, representation=vector, tally=None)

    def _vector(self, client: int, report: Report, reference: Vector) -> npt.NDArray[np.float32] | None:
        tally = np.empty(0) if report.tally is None else report.tally
        if tally.size != reference.size:
            _LOG.warning("client %d sums up %d numbers instead of %d: refused", client, tally.size, reference.size)
            return None
        try:
            if self._is_private:
                n_samples = np.array([report.n_samples])
                rows = noised_vectors(self._representation, tally[np.newaxis], n_samples, reference).astype(np.float32)
            else:
                rows = self._representation.vectors(tally[np.newaxis], reference).astype(np.float32)
            checked_rows(rows, 1, kind="vector" if self._is_private else self._representation.kind, width=None)
            if not rows.any():
                raise ReportError("a window without samples has no sums")
        except (ReportError, ValueError) as error:
            _LOG.warning("the sums of client %d are no window: %s", client, error)
            return None
        return np.asarray(rows[0])

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs; no first report waits between rounds."""
        shared = np.empty(0, dtype=np.float32) if self._model is None else self._model
        reference = np.empty(0) if self._reference is None else self._reference
        columns = (shared.astype("<f4"), reference.astype("<f8"), self._held.astype("<i8"))
        return dict(zip(_NAMES, columns, strict=True))

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, or raise :class:`CheckpointError`."""
        found = [arrays.get(name) for name in _NAMES]
        if any(one is None for one in found):
            raise CheckpointError("the checkpoint lacks the shared model of a deployment; begin anew in another folder")
        model, reference, held = (np.asarray(one) for one in found)
        if model.size not in (0, self._layout.size):
            raise CheckpointError(f"the shared model of the checkpoint has {model.size} numbers; begin anew")
        self._model = model.astype(np.float32) if model.size else None
        self._reference = reference.astype(np.float64) if reference.size else None
        self._held = held.astype(np.int64)
        self._name()

    def _name(self) -> None:
        """Find the key of what is shared."""
        self._key = ".".join(digest_of(one) for one in (self._model, self._reference) if one is not None)


def sharing_of(config: Config, report_rule: ReportRule | None, *, layout: Layout, work: WorkRule) -> Sharing | None:
    """Return how the shared model of a config reaches devices; None if they need none.

    ``report_rule`` is how devices describe their windows, None if by code of the user's own; ``layout`` and ``work``
    are those of the models that are trained: the shared model is made alike.
    """
    if report_rule is None or report_rule.representation is None or not report_rule.needs_model:
        return None
    section = config.coordinator
    return Sharing(
        report_rule.representation,
        layout=layout,
        work=work,
        rounds=section.shared_rounds,
        model=None if section.shared_model in (None, GLOBAL) else file_model(section, layout),
        is_private=privacy_of(config, report_rule) is not None,
    )
