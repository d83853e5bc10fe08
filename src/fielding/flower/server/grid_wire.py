"""The wire on Flower's grid: one message per node, all in one push; replies by the ids of what they answer."""

import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fielding.federation.clients import Reason
from fielding.flower.server.exchange import Node
from fielding.flower.wire.messages import MESSAGE_TYPES, SentModels, n_bytes, order_records, reply_from
from fielding.flower.wire.orders import Answer, Expected, Order, Refusal, Verb, one_line

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

REASONS: dict[int, Reason] = {3: "straggler", 4: "straggler", 5: "offline"}
"""Flower's error codes: message or reply outlived, node gone; with all others the client's own code failed."""
_LOG = logging.getLogger(__name__)
_RAISED = re.compile(r"<class '(?:\w+\.)*(\w+)'>:<'(.*)'>", re.DOTALL)
"""How Flower tells of an exception in a client's own code: its class, perhaps of a module, and its message."""


class GridWire:
    """Sends orders through the grid that Flower gives to a ServerApp.

    ``expected`` says what replies have to look like. Messages and their replies live ``ttl_s`` seconds, well above the
    deadline: a reply that comes late then still says that its node is free again.
    """

    def __init__(self, grid: "Grid", expected: Expected, *, ttl_s: float) -> None:
        self._grid, self._ttl_s = grid, ttl_s
        self._pulls_alone = False
        self.expected = expected

    def nodes(self) -> list[Node]:
        """Return the nodes that can be reached now, by address."""
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

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
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
        tickets = [one.metadata.message_id if one.metadata.message_id in taken else None for one in messages]
        return [(ticket, n_bytes(one.content)) for ticket, one in zip(tickets, messages, strict=True)]

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        """Return the answers that have come.

        Flower forgets the replies of a pull before they are unpacked. One that cannot be takes the others of its pull
        with it, which then count as stragglers; from then on every reply is pulled alone.
        """
        if not asked:
            return {}
        import httpx

        found: dict[str, tuple[Answer, int]] = {}
        alone = [{ticket: one} for ticket, one in asked.items()]
        batches = deque(alone if self._pulls_alone else [asked])
        while batches:
            batch = batches.popleft()
            try:
                replies = list(self._grid.pull_messages(list(batch)))
            except (httpx.HTTPError, OSError):  # the link cannot be reached: no node failed
                raise
            except Exception as error:
                if self._pulls_alone:
                    text = one_line(f"the reply cannot be unpacked: {error}")
                    found |= dict.fromkeys(batch, (Refusal(reason="failed", text=text), 0))
                else:  # which reply it was is not known: the next one like it is found
                    _LOG.warning("a reply cannot be unpacked, and took others with it: %s", one_line(error))
                    self._pulls_alone, batches = True, deque(alone)
                continue
            for reply in replies:
                ticket = reply.metadata.reply_to_message_id
                if ticket in batch:
                    found[ticket] = self._read(reply, *batch[ticket])
        return found

    def _read(self, reply: "Message", address: int, verb: Verb) -> tuple[Answer, int]:
        """Return what a reply says, and its bytes; the link speaks for nodes that are gone, but brings no content."""
        if reply.has_error():
            reason, why = REASONS.get(reply.error.code, "failed"), reply.error.reason or "no reason given"
            if raised := _RAISED.fullmatch(why):
                why = f"{raised.group(1)}: {raised.group(2)}"
            return Refusal(reason=reason, text=one_line(f"error {reply.error.code}: {why}")), 0
        if not reply.has_content():
            return Refusal(reason="failed", text="an empty reply"), 0
        size = n_bytes(reply.content)
        if reply.metadata.src_node_id != address:
            return Refusal(reason="failed", text=f"node {reply.metadata.src_node_id} answered for another"), size
        return reply_from(reply.content, verb, self.expected), size
