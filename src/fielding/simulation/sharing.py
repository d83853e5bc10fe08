"""The shared model on its way to the clients, and what they know of the models that serve them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Models
from fielding.simulation.observers import Observer
from fielding.simulation.tally_observer import ServedErrors, TallyObserver

_MODEL = "shared_model"


class Sharing:
    """Gives observers that need them a shared model and the errors of served models.

    Parameters
    ----------
    observer
        Watches the clients; whoever needs no model is left alone.
    rounds
        After so many rounds the clients get the model that they wait for, if they do.
    """

    def __init__(self, observer: Observer | None, *, rounds: int) -> None:
        self._observer = observer if isinstance(observer, TallyObserver) else None
        self._rounds = rounds
        self._model: Models | None = None

    def is_time(self, n_done: int) -> bool:
        """Return whether clients wait for a model that is due after so many rounds."""
        return self._observer is not None and self._observer.awaits_model and n_done >= self._rounds

    def share(self, model: Models) -> None:
        """Send a model to everybody, and remember it."""
        if self._observer is not None:
            self._model = model.copy()
            self._observer.share(self._model)

    def listen(self, errors: ServedErrors) -> None:
        """Let clients know how the models that serve them err, if they want to."""
        if self._observer is not None:
            self._observer.served_errors = errors

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what going through the data again does not tell."""
        shared: dict[str, npt.NDArray[np.generic]] = {} if self._model is None else {_MODEL: self._model}
        return shared if self._observer is None else {**shared, **self._observer.arrays()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave, before all rounds are gone through again."""
        if self._observer is not None:
            self._observer.restore(arrays)
            self._model = arrays[_MODEL].astype(np.float32) if _MODEL in arrays else None

    def share_again(self, n_done: int) -> None:
        """Send the model that is known from before, when its time has come again."""
        if self._model is not None and self.is_time(n_done):
            self.share(self._model)
