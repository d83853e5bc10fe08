"""What the coordinator checks of reports beside their rows: shape of a single one, ids, numbers of samples, step."""

from typing import cast

import numpy as np

from fielding._typing import ClientId, Counts, Floats
from fielding.errors import ReportError, echo


def as_row(representation: Floats) -> Floats:
    """Return a representation as a matrix of one row, for the check that batches pass."""
    try:
        shape = np.shape(representation)
    except ValueError:
        shape = ()
    if len(shape) != 1:
        raise ReportError(f"a representation has shape {shape}; it must be (n_features,)")
    return cast(Floats, np.asarray(representation)[np.newaxis])


def check_same_type(known: ClientId, new: ClientId) -> None:
    """Raise if the ids of the first reports of a federation differ in type."""
    if type(known) is not type(new):
        raise ReportError(f"client ids {echo(known)} and {echo(new)} differ in type; use one type")


def checked_count(n_samples: object) -> int:
    """Return a number of samples, or raise unless it is a whole number from 0."""
    if not isinstance(n_samples, (int, np.integer)) or isinstance(n_samples, bool) or n_samples < 0:
        raise ReportError(f"n_samples is {echo(n_samples)}; give a whole number from 0")
    return int(n_samples)


def checked_counts(n_samples: object, n_rows: int) -> Counts | None:
    """Return the numbers of samples behind the reports of a batch, or raise unless there is one for each.

    Examples
    --------
    >>> checked_counts([20, 0], 2).tolist()
    [20, 0]
    """
    if n_samples is None:
        return None
    try:
        counts = np.asarray(n_samples)
    except ValueError:
        counts = np.empty(())
    if counts.shape != (n_rows,) or (counts.size and (counts.dtype.kind not in "iu" or int(counts.min()) < 0)):
        raise ReportError(f"n_samples is {echo(n_samples)}; give a whole number from 0 for each of {n_rows} reports")
    return np.asarray(np.minimum(counts, 2**62).astype(np.int64))


def checked_step(step: object) -> int:
    """Return the number of an event, or raise unless it is a whole number of 64 bits."""
    if not isinstance(step, (int, np.integer)) or isinstance(step, bool) or not -(2**63) <= step < 2**63:
        raise ReportError(f"step is {echo(step)}; give a whole number of 64 bits")
    return int(step)
