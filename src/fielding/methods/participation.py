"""Who takes part in a round of a method whose authors let everybody: all of few clients, a sample of many."""

from typing import Literal

Participation = Literal["auto", "all", "sampled"]
MOST_FOR_ALL = 200
"""Federations up to this size let everybody take part in every round, as authors do (METHODS.md 5.7 and 7)."""


def is_sampled(participation: object, n_clients: int) -> bool:
    """Return whether only the participants of the run take part, not everybody.

    Examples
    --------
    >>> is_sampled("auto", 200), is_sampled("auto", 201), is_sampled("sampled", 3)
    (False, True, True)
    """
    return participation == "sampled" or (participation == "auto" and n_clients > MOST_FOR_ALL)
