"""The wire on Flower's grid: one message per node, all in one push; replies by the ids of what they answer."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fielding.errors import InputError
from fielding.flower.flwr_inside import RAISED_BY_CLIENT, REASONS
from fielding.flower.server.exchange import Node
from fielding.flower.wire.messages import (
    AGREEMENTS,
    MESSAGE_TYPES,
    PROTOCOL,
    SentModels,
    n_bytes,
    order_records,
    reply_from,
    spoken_from,
    spoken_in,
)
from fielding.flower.wire.orders import CLOCK_S, Answer, Expected, Order, Refusal, Verb, one_line

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

LONGEST_WHY = 1000  # characters of an error that are looked at
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sent:
    """An order as it was sent: in which agreement, when, and as which message; whether it was said before."""

    address: int
    order: Order
    agreement: int
    message_id: str
    created_at: float
    is_again: bool = False


class GridWire:
    """Sends orders through the grid that Flower gives to a ServerApp.

    ``expected`` says what replies have to look like. Messages and their replies live ``ttl_s`` seconds, well above the
    deadline: a reply that comes late then still says that its node is free again.

    A node is spoken to in the newest agreement until it says which ones it speaks; then the order is said again in the
    newest that both do. It is tried in the newest anew when the node comes back, perhaps with another release. A node
    whose clock is off is told of once.
    """

    def __init__(self, grid: "Grid", expected: Expected, *, ttl_s: float) -> None:
        self._grid, self._ttl_s = grid, ttl_s
        self._pulls_alone = False
        self.expected = expected
        self._agreements: dict[int, int] = {}  # that nodes are known to speak, by address
        self._came: dict[int, str] = {}  # when nodes came, by address
        self._sent: dict[str, _Sent] = {}  # orders without an answer, by ticket
        self._unsaid: dict[str, Refusal] = {}  # orders that could not be said to their nodes, by ticket
        self._n_unsaid = 0
        self._clocks_told: set[int] = set()

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
        came = {node.address: node.activated_at for node in found}
        for address in [at for at in self._agreements if came.get(at) != self._came.get(at)]:
            del self._agreements[address]
        self._came = came
        return sorted(found, key=lambda node: node.address)

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        """Send orders in one push, a model that goes to many nodes written once."""
        sent: SentModels = {}
        messages: dict[int, Message] = {}
        posted: list[tuple[str | None, int]] = [(None, 0)] * len(orders)
        for at, (address, order) in enumerate(orders):
            try:
                messages[at] = self._message(address, order, sent)
            except InputError as error:
                self._n_unsaid += 1
                posted[at] = (f"unsaid-{self._n_unsaid}", 0)
                self._unsaid[f"unsaid-{self._n_unsaid}"] = Refusal(reason="refused", text=one_line(error))
        # Ids are set by the push. The list of those taken may be shorter, or hold None where one was refused.
        taken = set(self._grid.push_messages(list(messages.values()))) if messages else set()
        for at, message in messages.items():
            ticket, (address, order) = message.metadata.message_id, orders[at]
            posted[at] = (ticket if ticket in taken else None, n_bytes(message.content))
            if ticket in taken:
                self._sent[ticket] = _Sent(
                    address=address,
                    order=order,
                    agreement=self._agreements.get(address, PROTOCOL),
                    message_id=ticket,
                    created_at=message.metadata.created_at,
                )
        return posted

    def _message(self, address: int, order: Order, sent: SentModels) -> "Message":
        """Return the message of an order, in the agreement that its node is thought to speak."""
        from flwr.app import Message

        records = order_records(order, sent, agreement=self._agreements.get(address, PROTOCOL))
        return Message(records, address, MESSAGE_TYPES[order.verb], ttl=self._ttl_s, group_id=str(order.round_index))

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        """Return the answers that have come.

        Flower forgets the replies of a pull before they are unpacked. One that cannot be takes the others of its pull
        with it, which then count as stragglers; from then on every reply is pulled alone.
        """
        self._sent = {ticket: one for ticket, one in self._sent.items() if ticket in asked}
        if not asked:
            return {}
        import httpx

        found: dict[str, tuple[Answer, int]] = {
            ticket: (self._unsaid.pop(ticket), 0) for ticket in asked if ticket in self._unsaid
        }
        tickets = {self._message_id(ticket): ticket for ticket in asked if ticket not in found}
        alone = [[one] for one in tickets]
        batches = deque(alone if self._pulls_alone else [list(tickets)] if tickets else [])
        while batches:
            batch = batches.popleft()
            try:
                replies = list(self._grid.pull_messages(batch))
            except (httpx.HTTPError, OSError):  # the link cannot be reached: no node failed
                raise
            except Exception as error:
                if self._pulls_alone:
                    text = one_line(f"the reply cannot be unpacked: {error}")
                    found |= {tickets[one]: (Refusal(reason="failed", text=text), 0) for one in batch}
                else:  # which reply it was is not known: the next one like it is found
                    _LOG.warning("a reply cannot be unpacked, and took others with it: %s", one_line(error))
                    self._pulls_alone, batches = True, deque(alone)
                continue
            for reply in replies:
                if (message_id := reply.metadata.reply_to_message_id) in batch:
                    ticket = tickets[message_id]
                    answer = self._settle(ticket, reply, *asked[ticket])
                    if answer is not None:
                        found[ticket] = answer
        return found

    def _message_id(self, ticket: str) -> str:
        """Return the message that says an order now: another one than at first, if it was said again."""
        return self._sent[ticket].message_id if ticket in self._sent else ticket

    def _settle(self, ticket: str, reply: "Message", address: int, verb: Verb) -> tuple[Answer, int] | None:
        """Return what a reply says, and its bytes; None if its order was said again in an older agreement."""
        sent = self._sent.get(ticket)
        if sent is not None and (spoken := _spoken(reply, address)) is not None:
            common = max(set(spoken) & set(AGREEMENTS), default=None)
            if common is None or common == sent.agreement or sent.is_again:
                del self._sent[ticket]
                self._agreements.pop(address, None)  # the next order tries the newest again
                ours, theirs = (", ".join(map(str, one)) for one in (AGREEMENTS, spoken))
                text = f"it speaks agreement {theirs}, this server {ours}; install the same release of fielding on both"
                return Refusal(reason="failed", text=one_line(text)), 0 if reply.has_error() else n_bytes(reply.content)
            return self._say_again(ticket, sent, common)
        if sent is not None:
            del self._sent[ticket]
            if not reply.has_error():
                self._agreements.setdefault(address, sent.agreement)
                self._check_clock(reply, sent)
        return self._read(reply, address, verb)

    def _say_again(self, ticket: str, sent: _Sent, agreement: int) -> tuple[Answer, int] | None:
        """Send an order once more, in an agreement that its node speaks; an answer if that cannot be."""
        _LOG.warning(
            "node %d speaks agreement %d, this server %d: it is spoken to in that; upgrade fielding on it when you can",
            *(sent.address, agreement, PROTOCOL),
        )
        self._agreements[sent.address] = agreement
        try:
            message = self._message(sent.address, sent.order, {})
        except InputError as error:
            del self._sent[ticket]
            return Refusal(reason="refused", text=one_line(error)), 0
        taken = set(self._grid.push_messages([message]))  # it sets the id
        if message.metadata.message_id not in taken:
            del self._sent[ticket]
            return Refusal(reason="offline", text="the order was not taken"), 0
        self._sent[ticket] = replace(
            sent,
            agreement=agreement,
            message_id=message.metadata.message_id,
            created_at=message.metadata.created_at,
            is_again=True,
        )
        return None

    def _check_clock(self, reply: "Message", sent: _Sent) -> None:
        """Tell, once, of a node whose clock is off: it wrote its answer before it was asked, or after it came."""
        ahead_s, behind_s = reply.metadata.created_at - time.time(), sent.created_at - reply.metadata.created_at
        if max(ahead_s, behind_s) > CLOCK_S and sent.address not in self._clocks_told:
            self._clocks_told.add(sent.address)
            way = f"{ahead_s:.0f} s ahead of" if ahead_s > behind_s else f"{behind_s:.0f} s behind"
            _LOG.warning("the clock of node %d is at least %s the server's; set it", sent.address, way)

    def _read(self, reply: "Message", address: int, verb: Verb) -> tuple[Answer, int]:
        """Return what a reply says, and its bytes; the link speaks for nodes that are gone, but brings no content."""
        if reply.has_error():
            reason = REASONS.get(reply.error.code, "failed")
            return Refusal(reason=reason, text=one_line(f"error {reply.error.code}: {_why(reply)}")), 0
        if not reply.has_content():
            return Refusal(reason="failed", text="an empty reply"), 0
        size = n_bytes(reply.content)
        if reply.metadata.src_node_id != address:
            return Refusal(reason="failed", text=f"node {reply.metadata.src_node_id} answered for another"), size
        return reply_from(reply.content, verb, self.expected), size


def _why(reply: "Message") -> str:
    """Return the words of an error: of an exception in a client's own code its class and message."""
    why = reply.error.reason or "no reason given"
    raised = RAISED_BY_CLIENT.fullmatch(why)
    return f"{raised.group(1)}: {raised.group(2)}" if raised else why


def _spoken(reply: "Message", address: int) -> tuple[int, ...] | None:
    """Return the agreements that a node speaks, if it answers that it does not speak that of the order."""
    if reply.has_error():
        return spoken_in(_why(reply)[:LONGEST_WHY])
    is_its_own = reply.has_content() and reply.metadata.src_node_id == address
    return spoken_from(reply.content) if is_its_own else None
