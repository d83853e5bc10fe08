"""What models make of the samples of one device: features and scores, gradients, and mistakes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix, Vector
from fielding.errors import InputError
from fielding.flower.device_models import HeldModel
from fielding.flower.device_scoring import DeviceScoring
from fielding.flower.local_jobs import settings_from, trainer_here
from fielding.flower.own_code import OwnCode
from fielding.flower.samples import Kept
from fielding.training.head import gradient_of, head_size

Columns: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSight:
    """Looks at samples with the models that a device holds.

    Parameters
    ----------
    n_classes
        Length of the class list.
    shared
        The model that everybody sees samples with; None: the device has none, or needs none.
    served
        Returns the model that serves the device; it is asked only if its mistakes matter.
    own
        The user's own code.
    """

    n_classes: int
    shared: HeldModel | None = None
    served: Callable[[], HeldModel | None] = lambda: None
    own: OwnCode

    @property
    def n_head(self) -> int:
        """How many parameters of the shared model, at their end, are its last layer; 0 if nobody knows."""
        return 0 if self.shared is None else head_size(self.shared.layout, self.n_classes)

    def look(self, samples: Kept) -> tuple[Columns, Columns]:
        """Return features and scores of samples, as the shared model sees them; without one of no columns, and zeros.

        Returns
        -------
        float32, shapes ``(n_samples, n_features)`` and ``(n_samples, n_classes)``.
        """
        if self.shared is None or not samples.y.size:
            n_samples = samples.y.size
            return np.zeros((n_samples, 0), np.float32), np.zeros((n_samples, self.n_classes), np.float32)
        return _scoring(self.shared, self.own).seen(self.shared.model, samples)

    def gradient(self, samples: Kept) -> Matrix:
        """Return the gradient of the summed loss of samples under the shared model, shape ``(1, n_parameters)``."""
        if self.shared is None:
            raise RuntimeError("gradients need a shared model")
        if self.own.train is not None:
            raise InputError(
                "coordinator.representation is gradient, which code of one's own for training cannot give; "
                "take head-gradient, which needs features and scores alone"
            )
        if not samples.y.size:
            return np.zeros((1, self.shared.layout.parameter_size))
        trainer = trainer_here(self.shared.layout, settings_from(self.shared.settings), samples, self.own.model)
        rows = np.arange(samples.y.size)
        found = gradient_of(trainer, self.shared.model, rows, lambda some: (samples.x[some], samples.y[some]))
        return found[np.newaxis]

    def errors(self, samples: Kept, window: Kept) -> Vector:
        """Return 1 where the model that serves the device errs, else 0, shape ``(n_samples,)``; NaN without one.

        Parameters
        ----------
        samples
            What it is about.
        window
            The training samples of the device, whose label mix models may be corrected to.
        """
        served = self.served() if samples.y.size else None
        if served is None:
            return np.full(samples.y.size, np.nan)
        return _scoring(served, self.own).errors(served.model, samples, window)


def _scoring(held: HeldModel, own: OwnCode) -> DeviceScoring:
    return DeviceScoring(held.layout, settings_from(held.settings), own)
