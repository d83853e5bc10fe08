"""A grid that writes down what goes over it: every push and every reply, with the time and the bytes."""

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fielding._typing import Json
from fielding.flower.wire.records import n_bytes

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.serverapp import Grid

PUSH, REPLY, END = "push", "reply", "end"
"""What lines of the log are about."""


class CountedGrid:
    """Does what a grid does, and writes down what that is; made for all contenders alike.

    Parameters
    ----------
    grid
        What Flower gives to a ServerApp.
    log
        A file that gets one JSON object a line.
    poll_s
        Seconds between two questions for replies, while a strategy of Flower waits; None: as Flower does it.
    """

    def __init__(self, grid: "Grid", log: Path, *, poll_s: float | None = None) -> None:
        self._grid, self._log, self._poll_s = grid, log, poll_s

    def get_nodes(self) -> "Iterable[NodeInfo]":
        """Return who is there."""
        return self._grid.get_nodes()

    def get_node_ids(self) -> Iterable[int]:
        """Return who is there, by id."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: "Iterable[Message]") -> Iterable[str]:
        """Send messages."""
        sent = list(messages)
        self._note_push(sent)
        return self._grid.push_messages(sent)

    def pull_messages(self, message_ids: Iterable[str]) -> "Iterable[Message]":
        """Return the replies that have come."""
        replies = list(self._grid.pull_messages(message_ids))
        self._note_replies(replies)
        return replies

    def send_and_receive(self, messages: "Iterable[Message]", *, timeout: float | None = None) -> "Iterable[Message]":
        """Send messages and return their replies."""
        sent = list(messages)
        if self._poll_s is not None:
            return self._polled(sent, self._poll_s, timeout)
        self._note_push(sent)
        replies = list(self._grid.send_and_receive(sent, timeout=timeout))
        self._note_replies(replies)
        return replies

    def end(self) -> None:
        """Write down that there is nothing more to come."""
        self._note({"what": END})

    def _polled(self, messages: "list[Message]", poll_s: float, timeout: float | None) -> "list[Message]":
        waiting, replies = set(self.push_messages(messages)), list["Message"]()
        give_up = None if timeout is None else time.monotonic() + timeout
        while waiting and (give_up is None or time.monotonic() < give_up):
            found = list(self.pull_messages(waiting))
            replies += found
            waiting -= {reply.metadata.reply_to_message_id for reply in found}
            if waiting:
                time.sleep(poll_s)
        return replies

    def _note_push(self, messages: "list[Message]") -> None:
        """Write down a push; of nothing there is none."""
        if not messages:
            return
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for message in messages:
            kind = kind_of(message.metadata.message_type)
            counts[kind] += 1
            sizes[kind] += n_bytes(message.content)
        self._note({"what": PUSH, "messages": dict(counts), "bytes": dict(sizes)})

    def _note_replies(self, replies: "list[Message]") -> None:
        for reply in replies:
            is_good = reply.has_content()
            self._note(
                {
                    "what": REPLY,
                    "kind": kind_of(reply.metadata.message_type),
                    "bytes": n_bytes(reply.content) if is_good else 0,
                    "is_good": is_good,
                }
            )

    def _note(self, row: dict[str, Json]) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"at_s": time.monotonic(), **row}) + "\n")


def kind_of(message_type: str) -> str:
    """Return what a message is about.

    Examples
    --------
    >>> kind_of("query.describe"), kind_of("train")
    ('query', 'train')
    """
    return message_type.partition(".")[0]
