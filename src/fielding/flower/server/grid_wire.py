"""The wire on Flower's grid: one message per node, all in one push; replies by the ids of what they answer."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fielding.federation.clients import Reason
from fielding.flower.server.exchange import Asked, Node, Posted, Received
from fielding.flower.wire.messages import MESSAGE_TYPES, SentModels, n_bytes, order_records, reply_from
from fielding.flower.wire.orders import Expected, Order, Refusal, one_line

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

REASONS: dict[int, Reason] = {3: "straggler", 4: "straggler", 5: "offline"}
"""Flower's error codes: message or reply outlived, node gone; with all others the client's own code failed."""
_LOG = logging.getLogger(__name__)
_RAISED = re.compile(r"<class '(?:\w+\.)*(\w+)'>:<'(.*)'>", re.DOTALL)
"""How Flower tells of an exception in a client's own code."""


class GridWire:
    """Sends orders through a grid.

    Parameters
    ----------
    grid
        What Flower gives to a ServerApp.
    expected
        What replies have to look like; may be set anew between exchanges.
    ttl_s
        How long messages and their replies live, seconds. Well above the deadline: a reply that comes late then still
        says that its node is free again.
    """

    def __init__(self, grid: "Grid", expected: Expected, *, ttl_s: float) -> None:
        self._grid, self._ttl_s = grid, ttl_s
        self._pulls_alone = False
        self.expected = expected

    def nodes(self) -> list[Node]:
        """Return who can be reached now, by address."""
        found = [
            Node(
                address=int(one.node_id),
                public_key=bytes(one.public_key),
                activated_at=str(one.last_activated_at),
                heartbeat_s=float(one.heartbeat_interval),
                name=one_line(one.name),
            )
            for one in self._grid.get_nodes()
        ]
        return sorted(found, key=lambda node: node.address)

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[Posted]:
        """Send orders in one push, a model that goes to many nodes written once."""
        from flwr.app import Message

        sent: SentModels = {}
        messages = [
            Message(
                order_records(order, sent),
                address,
                MESSAGE_TYPES[order.verb],
                ttl=self._ttl_s,
                group_id=str(order.round_index),
            )
            for address, order in orders
        ]
        if not messages:
            return []
        # Ids are set by the push. The list of those taken may be shorter, or hold None where one was refused.
        taken = set(self._grid.push_messages(messages))
        return [
            Posted(
                ticket=message.metadata.message_id if message.metadata.message_id in taken else None,
                n_bytes=n_bytes(message.content),
            )
            for message in messages
        ]

    def pull(self, asked: Mapping[str, Asked]) -> list[Received]:
        """Return the answers that have come.

        Flower forgets the replies of a pull before they are unpacked. One that cannot be takes the others of its pull
        with it, which then count as stragglers; from then on every reply is pulled alone.
        """
        if not asked:
            return []
        if self._pulls_alone:
            return self._each_alone(asked)
        import httpx

        try:
            replies = list(self._grid.pull_messages(list(asked)))
        except (httpx.HTTPError, OSError):  # nobody's fault: the link cannot be reached
            raise
        except Exception as error:  # whose reply it was is not known: the next one like it is found
            _LOG.warning("a reply cannot be unpacked, and took others with it: %s", one_line(error))
            self._pulls_alone = True
            return self._each_alone(asked)
        return [
            self._received(reply, asked[reply.metadata.reply_to_message_id])
            for reply in replies
            if reply.metadata.reply_to_message_id in asked
        ]

    def _each_alone(self, asked: Mapping[str, Asked]) -> list[Received]:
        return [received for ticket, one in asked.items() for received in self._pulled_alone(ticket, one)]

    def _pulled_alone(self, ticket: str, asked: Asked) -> list[Received]:
        """Return the answer to one order, if it has come; one that Flower cannot unpack is a refusal."""
        import httpx

        try:
            replies = list(self._grid.pull_messages([ticket]))
        except (httpx.HTTPError, OSError):
            raise
        except Exception as error:
            refusal = Refusal(reason="failed", text=one_line(f"the reply cannot be unpacked: {error}"))
            return [Received(ticket=ticket, answer=refusal, n_bytes=0)]
        return [self._received(reply, asked) for reply in replies if reply.metadata.reply_to_message_id == ticket]

    def _received(self, reply: "Message", asked: Asked) -> Received:
        """Return what a reply says; the link speaks for nodes that are gone, but only a node itself brings content."""
        ticket = reply.metadata.reply_to_message_id
        if reply.has_error():
            reason = REASONS.get(reply.error.code, "failed")
            text = one_line(f"error {reply.error.code}: {_raised(reply.error.reason or 'no reason given')}")
            return Received(ticket=ticket, answer=Refusal(reason=reason, text=text), n_bytes=0)
        if not reply.has_content():
            return Received(ticket=ticket, answer=Refusal(reason="failed", text="an empty reply"), n_bytes=0)
        size = n_bytes(reply.content)
        if reply.metadata.src_node_id != asked.address:
            refusal = Refusal(reason="failed", text=f"node {reply.metadata.src_node_id} answered for another")
            return Received(ticket=ticket, answer=refusal, n_bytes=size)
        return Received(ticket=ticket, answer=reply_from(reply.content, asked.verb, self.expected), n_bytes=size)


def _raised(reason: str) -> str:
    """Return what a client's own code failed with, in as few words as there are.

    Examples
    --------
    >>> _raised("<class 'fielding.errors.InputError'>:<'train gave None'>")
    'InputError: train gave None'
    """
    found = _RAISED.fullmatch(reason)
    return f"{found.group(1)}: {found.group(2)}" if found else reason
