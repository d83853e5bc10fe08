"""Stages 1 to 4 with a representation on a shared model: each sample is looked at once, windows are sums of samples."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Models, Vector
from fielding.client.drift.sample_tests import Judge
from fielding.client.fleet import FleetReports
from fielding.client.representation.representation import Representation
from fielding.client.tally_watch import Sighting, TallyWatch
from fielding.client.windows_seen import WindowsSeen
from fielding.simulation.observers import NOTHING, Looked
from fielding.simulation.sight import Sight
from fielding.traces.sliding import SlidingWindows

ServedErrors = Callable[[Counts], Vector]
"""Returns 1 where the model that serves its client errs on a schedule row, else 0."""

_ERRORS = "served_errors"


class TallyObserver:
    """Clients report what a representation makes of their training window.

    What they report is relative to the sums over all clients at the start, which the coordinator sends back once. When
    they do is up to :class:`~fielding.client.tally_watch.TallyWatch`.

    Parameters
    ----------
    windows
        What clients see when.
    representation
        What stands for a window.
    judge
        When they report again.
    sight
        What the shared model sees.

    Attributes
    ----------
    served_errors
        Tells the errors of served models on samples that arrive, for judges that need them; None until models serve.
    """

    def __init__(self, windows: SlidingWindows, representation: Representation, *, judge: Judge, sight: Sight) -> None:
        self._windows, self._representation, self._judge, self._sight = windows, representation, judge, sight
        self.served_errors: ServedErrors | None = None
        self._reference: Vector | None = None
        self._watch = TallyWatch(windows.n_clients, judge, has_turnover=windows.plan.n_visible > 1)
        self._is_equipped = np.zeros(windows.n_clients, dtype=np.bool_)
        self._visible = (0, 0)
        n_noted = windows.schedule.y.size if judge.needs_errors else 0
        self._errors = np.full(n_noted, np.nan, dtype=np.float32)
        self.looked = Looked()
        self._n_to_send = 0

    def share(self, model: Models) -> None:
        """Let clients see their samples with a model from now on; who looks at samples first has to be sent it."""
        self._sight.model = model
        self._n_to_send = model.size

    @property
    def awaits_model(self) -> bool:
        """Whether clients lack the shared model that they describe their windows with."""
        return not self._sight.is_open

    def observe(self, round_index: int) -> FleetReports:
        """Look at what arrived, and return the reports that are due."""
        self.looked = Looked()
        if self.awaits_model:
            return NOTHING
        touched, visible = self._watch.owing(), self._windows.visible(round_index)
        if visible != self._visible:
            touched |= self._arrived(round_index)
            touched |= self._watch.turned_over(visible[0])
            self._visible = visible
        clients = np.flatnonzero(touched)
        if not clients.size:
            return NOTHING
        now = self._windows_of(clients, round_index)
        return self._watch.reports(now, Sighting(round_index=round_index, first=visible[0], stop=visible[1]))

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._watch.hold(clients)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what going through the data again does not tell: how served models once erred."""
        return {_ERRORS: self._errors} if self._judge.needs_errors else {}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave, before all rounds are observed again."""
        if self._judge.needs_errors:
            self._errors = arrays[_ERRORS].astype(np.float32)

    def _arrived(self, round_index: int) -> Mask:
        """Look at what is new; return whose window changed, and, if the clock counts, who has reported."""
        rows, _ = self._windows.training(round_index).of(np.arange(self._windows.n_clients))
        gone, new = self._sight.show(np.sort(rows))
        if self._judge.needs_errors and self.served_errors is not None:
            unknown = new[np.isnan(self._errors[new])]
            self._errors[unknown] = self.served_errors(unknown)
        owner, n_clients = self._windows.schedule.client, self._windows.n_clients
        n_new = np.bincount(owner[new], minlength=n_clients)
        effort = self._representation.effort
        self.looked = Looked.at(n_new, "forward" if effort == "none" and self._sight.needs_model else effort)
        changed = (n_new > 0) | (np.bincount(owner[gone], minlength=n_clients) > 0)
        return np.asarray(changed | self._watch.last.is_active) if self._judge.is_timed else np.asarray(changed)

    def _windows_of(self, clients: Counts, round_index: int) -> WindowsSeen:
        """Return the windows of some clients; the first ones of all become what everybody is compared with."""
        rows, sizes = self._windows.training(round_index).of(clients)
        seen = self._sight.of(rows, sizes)
        tallies = self._representation.tally(seen)
        if self._reference is None:
            self._reference = tallies.sum(axis=0)
        self._equip(self._reference.size)
        return WindowsSeen(
            clients=clients,
            intervals=self._windows.schedule.interval[rows].astype(np.int64),
            seen=seen,
            errors=(self._errors[rows] if self._judge.needs_errors else np.full(rows.size, np.nan)).astype(np.float64),
            vectors=self._representation.vectors(tallies, self._reference).astype(np.float32),
        )

    def _equip(self, n_compared: int) -> None:
        """Note what clients that look at samples for the first time are sent: the model, and as many numbers more."""
        looking = self.looked.clients
        n_sent = np.where(self._is_equipped[looking], 0, self._n_to_send + n_compared)
        self.looked = replace(self.looked, received=n_sent)
        self._is_equipped[looking] = True
