"""Ends a run that nobody can take part in: more rounds of it would change nothing."""

from collections.abc import Sequence

from fielding._typing import ClientId
from fielding.errors import InputError
from fielding.flower.tasks import Settled

MOST_ROUNDS = 3
"""So many rounds in a row in which all who were asked to train failed end a run,"""
MOST_CLIENTS = 10
"""if so many clients failed in them, or all that are there: a few broken ones may be asked several times in a row."""


class FailingRounds:
    """Counts rounds in a row in which all who were asked to train failed.

    Nodes that are gone or slow, and clients without data, did not fail: they may be there, or have some, later.

    Examples
    --------
    >>> failing = FailingRounds()
    >>> broken = [Settled(reason="failed", text="no such model")]
    >>> for _ in range(3):
    ...     failing.note([7], broken, n_there=1)
    Traceback (most recent call last):
    fielding.errors.InputError: all nodes that were asked to train in 3 rounds failed; the last one said: \
no such model; mend the app of the nodes, then start again: the run goes on after its last committed round
    """

    def __init__(self) -> None:
        self._n_rounds = 0
        self._clients: set[int] = set()

    def note(self, clients: Sequence[int], settled: Sequence[Settled], n_there: int) -> None:
        """Take note of a round, and raise if it is one too many; one without jobs changes nothing.

        Parameters
        ----------
        clients, settled
            Whose jobs there were, and what became of each.
        n_there
            How many clients could have been asked.
        """
        if not settled:
            return
        if any(one.reason != "failed" for one in settled):
            self._n_rounds, self._clients = 0, set()
            return
        self._n_rounds += 1
        self._clients.update(clients)
        if self._n_rounds >= MOST_ROUNDS and len(self._clients) >= min(n_there, MOST_CLIENTS):
            raise InputError(
                f"all nodes that were asked to train in {self._n_rounds} rounds failed; the last one said: "
                f"{settled[-1].text}; mend the app of the nodes, then start again: the run goes on after its last "
                "committed round"
            )


def check_met(client_ids: Sequence[ClientId], n_nodes: int) -> None:
    """Raise if no client is known by now: of nodes that do not say who they are nobody can be asked anything.

    Examples
    --------
    >>> check_met((), 2)
    Traceback (most recent call last):
    fielding.errors.InputError: 2 nodes are there, but none has said who it is; look at the logs of the nodes, ...
    """
    if not client_ids:
        raise InputError(
            f"{n_nodes} nodes are there, but none has said who it is; look at the logs of the nodes, then start again, "
            "perhaps with a longer deadline"
        )
