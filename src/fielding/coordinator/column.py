"""An array with one row per client that grows in place."""

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


class Column(Generic[Scalar]):
    """Rows that are added at the end; the operating system moves the pages where it can.

    Parameters
    ----------
    values
        The first rows, of any further shape; owned by the column from now on.
    fill
        What new rows hold.
    """

    __slots__ = ("_fill", "values")

    def __init__(self, values: npt.NDArray[Scalar], fill: int = 0) -> None:
        self.values = values
        self._fill = fill

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows; rows that stand keep their values, views of them stay valid."""
        before = self.values.shape[0]
        shape = (n_rows, *self.values.shape[1:])
        try:
            # Not a copy: a matrix of a million clients never stands in memory twice.
            self.values.resize(shape)
        except ValueError:  # somebody holds a view of the old rows
            wider = np.zeros(shape, dtype=self.values.dtype)
            wider[:before] = self.values
            self.values = wider
        if self._fill:
            self.values[before:] = self._fill
