"""The check of a number of clients, which may grow between rounds and never shrinks."""

import numpy as np

from fielding.errors import OptionError, echo


def added_clients(n_before: int, n_clients: object) -> int:
    """Return how many clients were added, or raise if that is no number or would take some away.

    Examples
    --------
    >>> added_clients(3, 5)
    2
    >>> added_clients(3, 2)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: n_clients is 2; give a whole number of at least 3
    """
    if not isinstance(n_clients, (int, np.integer)) or isinstance(n_clients, bool) or n_clients < n_before:
        raise OptionError(f"n_clients is {echo(n_clients)}; give a whole number of at least {n_before}")
    return int(n_clients) - n_before
