"""What a run on Flower's nodes cost, out of what was written down of it: exchanges, bytes and seconds, and ratios."""

import json
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fielding._typing import Json
from fielding.flower.deploy.flower_program import RunState
from fielding.flower.deploy.processes import ProcessError
from fielding.flower.wire.messages import n_bytes
from fielding.reporting.formatting import digits

COST_HEADS = (
    "contender",
    "numbers",
    "exchanges at the start",
    "exchanges to train",
    "exchanges to test",
    "messages to train",
    "messages to describe",
    "bytes to nodes",
    "bytes from nodes",
    "own bytes to nodes",
    "own bytes from nodes",
    "own bytes without tests",
    "seconds a round",
    "slowest / fastest",
)
RATIO_HEADS = (
    "held against",
    "numbers",
    "more exchanges at the start",
    "more exchanges a round",
    "bytes",
    "own bytes",
    "own bytes without tests",
    "seconds a round",
    "no exchange and < 1 % of bytes more",
)


def cost_rows(costs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a table of costs, heads first.

    Parameters
    ----------
    costs
        Records of :class:`~benchmarks.traffic.Cost`.
    """
    rows = [list(COST_HEADS)]
    for cost in costs:
        counts = [cost[name] for name in ("n_before", "n_training", "n_tests", "n_trained", "n_described")]
        sizes = [cost[name] for name in ("flower_down", "flower_up", "own_down", "own_up")]
        untested = cost["untested_down"] + cost["untested_up"]
        rows.append(
            [
                str(cost["contender"]),
                digits(cost["n_numbers"], 0),
                *[digits(one, 0) for one in (*counts, *sizes, untested)],
                digits(cost["round_s"], 2),
                digits(cost["spread"], 2),
            ]
        )
    return rows


def ratio_rows(ratios: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a table of ratios, heads first.

    Parameters
    ----------
    ratios
        Records of :class:`~benchmarks.traffic.Ratio`.
    """
    rows = [list(RATIO_HEADS)]
    for ratio in ratios:
        shares = [ratio[name] for name in ("flower_bytes", "own_bytes", "untested_bytes")]
        rows.append(
            [
                f"{ratio['contender']} / {ratio['against']}",
                digits(ratio["n_numbers"], 0),
                digits(ratio["more_before"], 0),
                digits(ratio["more_exchanges"], 2),
                *[digits(one, 4) for one in shares],
                digits(ratio["round_s"], 2),
                "yes" if ratio["holds"] else "no",
            ]
        )
    return rows


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


BYTES_BAR = 1.01
"""Fielding may send so many times the bytes of FedAvg."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanges:
    """What the log of a counted grid says.

    Parameters
    ----------
    n_before, n_training, n_tests
        Pushes before the first one with a model to train; with one; and with models to test.
    n_trained, n_described
        Messages that asked to train, and to say what is new.
    own_down, own_up
        Bytes of values and names in all messages to nodes, and in their replies; what Flower adds is not counted.
    untested_down, untested_up
        The same, without tests.
    round_s
        Seconds from a push with training to the next, of rounds without a test; not of the first round, in which the
        nodes fetch the app, and not of the last, which has no next.
    """

    n_before: int
    n_training: int
    n_tests: int
    n_trained: int
    n_described: int
    own_down: int
    own_up: int
    untested_down: int
    untested_up: int
    round_s: tuple[float, ...]


def exchanges_of(rows: Sequence[Mapping[str, Any]]) -> Exchanges:
    """Return what a log says, or raise if it tells of an order without a good reply: no figure would be right then."""
    pushes = [row for row in rows if row["what"] == PUSH]
    replies = [row for row in rows if row["what"] == REPLY and row["is_good"]]
    n_orders = sum(sum(push["messages"].values()) for push in pushes)
    if len(replies) != n_orders or not rows or rows[-1]["what"] != END:
        raise ProcessError(f"{len(replies)} of {n_orders} messages were answered, so the run says nothing; try again")
    training = [push for push in pushes if "train" in push["messages"]]
    begun = training[0]["at_s"] if training else float("inf")
    return Exchanges(
        n_before=sum(push["at_s"] < begun for push in pushes),
        n_training=len(training),
        n_tests=sum("evaluate" in push["messages"] for push in pushes),
        n_trained=sum(push["messages"].get("train", 0) for push in pushes),
        n_described=sum(push["messages"].get("query", 0) for push in pushes),
        own_down=sum(sum(push["bytes"].values()) for push in pushes),
        own_up=sum(reply["bytes"] for reply in replies),
        untested_down=sum(n for push in pushes for kind, n in push["bytes"].items() if kind != "evaluate"),
        untested_up=sum(reply["bytes"] for reply in replies if reply["kind"] != "evaluate"),
        round_s=_round_seconds(pushes),
    )


def _round_seconds(pushes: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """Return the seconds from a push with training to the next, where no test is between; not from the first."""
    pushes = [push for push in pushes if not push["messages"].keys() <= {"query"}]  # questions follow on their own
    is_training = ["train" in push["messages"] for push in pushes]
    after_first = pushes[is_training.index(True) + 1 :] if True in is_training else []
    return tuple(
        later["at_s"] - push["at_s"]
        for push, later in pairwise(after_first)
        if "train" in push["messages"] and "train" in later["messages"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a contender costs, over all its turns.

    Parameters
    ----------
    contender
        Its name.
    n_numbers
        Of the model.
    n_before, n_training, n_tests
        Exchanges of a run: before the first round, with training, with tests.
    n_trained, n_described
        Messages of a run.
    flower_down, flower_up
        Bytes to and from nodes, per round, as the SuperLink counts them: all that belongs to messages. Questions of
        nodes that found nothing, and of the server to the SuperLink, are in nobody's count.
    own_down, own_up, untested_down, untested_up
        As in :class:`Exchanges`, per round.
    round_s
        Median seconds of a round without a test.
    spread
        Slowest over fastest of those.
    """

    contender: str
    n_numbers: int
    n_before: int
    n_training: int
    n_tests: int
    n_trained: int
    n_described: int
    flower_down: float
    flower_up: float
    own_down: float
    own_up: float
    untested_down: float
    untested_up: float
    round_s: float | None
    spread: float | None


def cost_of(contender: str, n_numbers: int, turns: Sequence[tuple[Exchanges, RunState]]) -> Cost:
    """Return what a contender costs, of all its turns: bytes are means, counts those of the last turn."""
    seconds = [second for exchanges, _ in turns for second in exchanges.round_s]
    last, n_rounds = turns[-1][0], turns[-1][0].n_training

    def per_round(amounts: Sequence[int]) -> float:
        return statistics.fmean(amounts) / n_rounds

    return Cost(
        contender=contender,
        n_numbers=n_numbers,
        n_before=last.n_before,
        n_training=last.n_training,
        n_tests=last.n_tests,
        n_trained=last.n_trained,
        n_described=last.n_described,
        flower_down=per_round([state.bytes_to_nodes for _, state in turns]),
        flower_up=per_round([state.bytes_from_nodes for _, state in turns]),
        own_down=per_round([one.own_down for one, _ in turns]),
        own_up=per_round([one.own_up for one, _ in turns]),
        untested_down=per_round([one.untested_down for one, _ in turns]),
        untested_up=per_round([one.untested_up for one, _ in turns]),
        round_s=statistics.median(seconds) if seconds else None,
        spread=max(seconds) / min(seconds) if seconds else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A contender held against another: numbers of the one over numbers of the other.

    Parameters
    ----------
    contender, against
        Their names.
    n_numbers
        Of the model.
    more_before, more_exchanges
        How many exchanges more: before the first round, and in a round on the average.
    flower_bytes, own_bytes, untested_bytes
        Bytes both ways: as Flower counts them, of the messages alone, and of those without tests.
    round_s
        Seconds of a round.
    holds
        Whether rounds have no exchange more, and less than 1 % more bytes by Flower's count, the start included.
    """

    contender: str
    against: str
    n_numbers: int
    more_before: int
    more_exchanges: float
    flower_bytes: float
    own_bytes: float
    untested_bytes: float
    round_s: float | None
    holds: bool


def ratio_of(cost: Cost, peer: Cost) -> Ratio:
    """Hold a contender against a peer with the same model."""
    more = (cost.n_training + cost.n_tests) / cost.n_training - (peer.n_training + peer.n_tests) / peer.n_training
    flower = (cost.flower_down + cost.flower_up) / (peer.flower_down + peer.flower_up)
    timed = cost.round_s is not None and peer.round_s is not None
    return Ratio(
        contender=cost.contender,
        against=peer.contender,
        n_numbers=cost.n_numbers,
        more_before=cost.n_before - peer.n_before,
        more_exchanges=more,
        flower_bytes=flower,
        own_bytes=(cost.own_down + cost.own_up) / (peer.own_down + peer.own_up),
        untested_bytes=(cost.untested_down + cost.untested_up) / (peer.untested_down + peer.untested_up),
        round_s=cost.round_s / peer.round_s if timed else None,  # type: ignore[operator]
        holds=more <= 0 and flower < BYTES_BAR,
    )
