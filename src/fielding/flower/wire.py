"""The wire to clients, seen from the server: who is there, orders out, answers in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fielding.flower.orders import Order, Verb
from fielding.flower.replies import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that can be reached.

    Parameters
    ----------
    address
        Where to send messages; it says nothing of who is there.
    public_key
        Who is there, in a deployment; in Flower's simulation random bytes.
    activated_at
        When it came, as text; another text means that it went and came back, and that what it worked on is lost.
    heartbeat_s
        Seconds between its signs of life; for ever in Flower's simulation.
    name
        What its owner calls it; may be empty.
    """

    address: int
    public_key: bytes = b""
    activated_at: str = ""
    heartbeat_s: float = 30.0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What became of an order that was pushed.

    Parameters
    ----------
    ticket
        By which its answer can be asked for; None if it was not taken.
    n_bytes
        What it weighs.
    """

    ticket: str | None
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whom an order went to, and what it wants."""

    address: int
    verb: Verb


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """An answer, by the ticket of its order."""

    ticket: str
    answer: Answer
    n_bytes: int


class Wire(Protocol):
    """What an exchange needs of a network; no call may wait for clients."""

    def nodes(self) -> Sequence[Node]:
        """Return who can be reached now, in any order."""
        ...

    def push(self, orders: Sequence[tuple[int, Order]]) -> Sequence[Posted]:
        """Send orders to addresses all at once, and return what became of each, in their order."""
        ...

    def pull(self, asked: Mapping[str, Asked]) -> Sequence[Received]:
        """Return the answers that have come, by ticket; each is returned once. A bad answer is a refusal, no error."""
        ...
