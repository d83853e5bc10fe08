"""The frozen model that all clients see their samples with, as it travels with orders: once to each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Models, Vector
from fielding.training.layout import Layout

LONGEST_KEY = 64
"""Characters of a key."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedView:
    """What all clients look at their samples with, as far as a client has not confirmed that it holds it.

    Parameters
    ----------
    key
        Which model is meant, and which reference: ``MODEL``, or ``MODEL.REFERENCE`` once there is one.
    model
        float32, shape ``(n_numbers,)``; None: the client holds it.
    layout, settings
        What its numbers mean, and how it is made, as in a train order; they come with the model.
    reference
        The sums over the windows of all clients at the start, to which reports are relative; float64, shape
        ``(n_sums,)``; None: the client holds it, or there is none yet.

    Examples
    --------
    >>> SharedView(key="ab.cd").model_key, SharedView(key="ab").model_key
    ('ab', 'ab')
    """

    key: str
    model: Models | None = None
    layout: Layout | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)
    reference: Vector | None = None

    @property
    def model_key(self) -> str:
        """The part of the key that names the model."""
        return self.key.partition(".")[0]

    @property
    def is_bare(self) -> bool:
        """Whether it brings nothing, since the client holds all."""
        return self.model is None and self.reference is None

    @property
    def n_bytes(self) -> int:
        """What its numbers weigh."""
        return sum(0 if one is None else one.nbytes for one in (self.model, self.reference))


def digest_of(numbers: npt.NDArray[np.generic]) -> str:
    """Return a short name of an array, by its content.

    Examples
    --------
    >>> len(digest_of(np.zeros(3, dtype=np.float32)))
    16
    """
    return blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=8).hexdigest()
