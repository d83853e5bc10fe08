"""All that a deployment remembers of its clients: ids, addresses, reports, costs."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Mask, Vector
from fielding.client.report import DRIFT_KINDS, NO_REPORTS, ReportBatch
from fielding.errors import CheckpointError, InputError, OptionError, echo
from fielding.federation.failing import FailingClients
from fielding.federation.ledger import Ledger
from fielding.federation.report_budget import ReportBudget
from fielding.federation.roll_call import RollCall
from fielding.flower.server.delivering import Deliveries
from fielding.flower.server.exchange import Exchange, Node, Settled, Task
from fielding.flower.server.roster import Roster, RosterChanges, identity_of
from fielding.flower.server.sharing import Sharing
from fielding.flower.wire.orders import (
    NO_REPORT,
    Answer,
    DescribeOrder,
    DescribeReply,
    EvaluateReply,
    Holding,
    Order,
    ProbeOrder,
    Refusal,
    Report,
    TrainOrder,
    TrainReply,
    Verb,
    category_of,
)
from fielding.methods.kinds import ReportsFrom
from fielding.rng import Hashes, client_key

UNKNOWN = -1  # number of samples of a client that has not reported it yet
_NAMES = ("confirmed", "n_samples", "waiting", "waiting_n_samples", "waiting_kinds", "waiting_rows")
_NO_KIND = -1


class Inbox:
    """Keeps the reports of clients until they act, each once, however often it is sent.

    Parameters
    ----------
    n_features
        The length of a representation; None: that of most reports that wait when they are first opened, of equally
        many the shorter. So one client that comes first cannot decide for all; those of another length are refused
        and may come again.

    Attributes
    ----------
    confirmed
        The number of the newest report of each client that has come, shape ``(n_clients,)``.
    n_samples
        How many samples each could train on when it was last heard of, ``UNKNOWN`` before, same shape.

    Examples
    --------
    >>> inbox = Inbox()
    >>> inbox.grow(2)
    >>> report = Report(number=1, representation=np.array([1.0, 0.0], dtype=np.float32), n_samples=4)
    >>> inbox.take(1, report), inbox.take(1, report)
    (True, False)
    >>> inbox.take_all(["ann", "bob"]).client_ids, inbox.take_all(["ann", "bob"]).client_ids
    (['bob'], [])
    """

    def __init__(self, n_features: int | None = None) -> None:
        self.n_features = n_features
        self.confirmed: Counts = np.empty(0, dtype=np.int64)
        self.n_samples: Counts = np.empty(0, dtype=np.int64)
        self._waiting: dict[int, Report] = {}
        self._before: dict[int, int] = {}  # what was confirmed before reports whose length may yet be refused

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined."""
        n_new = n_clients - self.confirmed.size
        self.confirmed = np.pad(self.confirmed, (0, n_new), constant_values=NO_REPORT)
        self.n_samples = np.pad(self.n_samples, (0, n_new), constant_values=UNKNOWN)

    def take(self, client: int, report: Report) -> bool:
        """Take in a report, and return whether it counts: it is new, a vector, and as long as the others.

        Of a client that reports again before its last report acted, the newest counts. As long as the length of the
        others is not known, any length counts for the time being.
        """
        if report.number <= self.confirmed[client] or report.tally is not None:
            return False
        if self.n_features is None:
            self._before.setdefault(client, int(self.confirmed[client]))
        elif not report.is_silent and report.representation.size != self.n_features:
            return False
        self.confirmed[client] = report.number
        self._waiting[client] = report
        return True

    def take_all(self, client_ids: Sequence[ClientId], of: Callable[[int], bool] = lambda _client: True) -> ReportBatch:
        """Return the reports that act now, by client, and keep them no longer; ``of`` says whose."""
        self._decide()
        clients = sorted(client for client in self._waiting if of(client))
        reports = [self._waiting.pop(client) for client in clients]
        for client in clients:
            self._before.pop(client, None)
        if not reports or self.n_features is None:  # clients that never had data have nothing to report
            return NO_REPORTS
        kinds = [DRIFT_KINDS.index(report.kind or DRIFT_KINDS[0]) for report in reports]
        has_kinds = any(report.kind is not None for report in reports)
        return ReportBatch(
            client_ids=[client_ids[client] for client in clients],
            representations=np.stack([report.row(self.n_features) for report in reports]),
            n_samples=np.array([report.n_samples for report in reports], dtype=np.int64),
            kinds=np.array(kinds, dtype=np.int8) if has_kinds else None,
        )

    def _decide(self) -> None:
        """Find how long representations are, if a client sent one by now, and refuse those of another length."""
        sizes = Counter(report.representation.size for report in self._waiting.values() if not report.is_silent)
        if self.n_features is not None or not sizes:
            return
        self.n_features = max(sizes, key=lambda size: (sizes[size], -size))
        before, self._before = self._before, {}
        for client, report in list(self._waiting.items()):
            if not report.is_silent and report.representation.size != self.n_features:
                got = (client, report.representation.size, self.n_features)
                _LOG.warning("client %d reports %d numbers, most others %d: refused", *got)
                del self._waiting[client]
                self.confirmed[client] = before.get(client, NO_REPORT)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs, the reports that wait among it."""
        self._decide()
        clients = sorted(self._waiting)
        reports = [self._waiting[client] for client in clients]
        width = self.n_features or 0
        kinds = [_NO_KIND if report.kind is None else DRIFT_KINDS.index(report.kind) for report in reports]
        columns = {
            "confirmed": self.confirmed.astype("<i8"),
            "n_samples": self.n_samples.astype("<i8"),
            "waiting": np.array(clients, dtype="<i8"),
            "waiting_n_samples": np.array([report.n_samples for report in reports], dtype="<i8"),
            "waiting_kinds": np.array(kinds, dtype="<i8"),
            "waiting_rows": np.array([report.row(width) for report in reports], dtype="<f4").reshape(
                len(reports), width
            ),
        }
        return {f"inbox.{name}": column for name, column in columns.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, or raise :class:`CheckpointError`."""
        found = [arrays.get(f"inbox.{name}") for name in _NAMES]
        if any(one is None for one in found):
            raise CheckpointError("the checkpoint lacks the reports of a deployment; begin anew in another folder")
        confirmed, n_samples, waiting, sizes, kinds, rows = (np.asarray(one) for one in found)
        fits = confirmed.shape == n_samples.shape and waiting.shape == sizes.shape == kinds.shape == rows.shape[:1]
        if not fits or (waiting.size and not 0 <= waiting.min() <= waiting.max() < confirmed.size):
            raise CheckpointError("the reports of the checkpoint do not fit together; begin anew in another folder")
        self.confirmed, self.n_samples = confirmed.astype(np.int64), n_samples.astype(np.int64)
        self.n_features = int(rows.shape[1]) or self.n_features
        self._waiting = {
            client: Report(
                number=int(self.confirmed[client]),
                representation=row.astype(np.float32) if size else np.empty(0, dtype=np.float32),
                n_samples=size,
                kind=None if kind == _NO_KIND else DRIFT_KINDS[kind],
            )
            for client, row, size, kind in zip(waiting.tolist(), rows, sizes.tolist(), kinds.tolist(), strict=True)
        }


COSTS = ("bytes_down", "bytes_up", "client_seconds")
_CATEGORIES = {"train": "model", "describe": "report", "evaluate": "probe", "probe": "probe"}
_TELL_S = 60.0  # seconds between two lines of the log while no node is there
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """How many nodes a run needs.

    Parameters
    ----------
    min_nodes
        A run begins, or goes on, when so many can be reached; later one is enough, and is waited for for ever.
    within_s
        How long to wait for them, seconds; then a new run ends, and one that goes on does so with those that are there.
    """

    min_nodes: int
    within_s: float = 600.0

    def __post_init__(self) -> None:
        if type(self.min_nodes) is not int or not 1 <= self.min_nodes < 2**31:
            raise OptionError(f"min_nodes is {echo(self.min_nodes)}; give a whole number of at least 1")
        if not 0 < self.within_s < float("inf"):
            raise OptionError(f"within_s is {echo(self.within_s)}; give seconds above 0")


class Contacts:
    """Keeps all clients that ever came, in their order, and charges them for what they do.

    Parameters
    ----------
    reports_from
        Whose reports the method hears; may be changed before the first round.
    n_features
        The length of a representation, if it is known.

    Attributes
    ----------
    round_costs
        What the round in hand cost so far: ``bytes_down``, ``bytes_up``, ``client_seconds``.
    keys
        The hash of each client's id, for draws, uint64, shape ``(n_clients,)``.
    sharing
        The model that clients see their samples with, if they do; to be set before the first of them comes.
    roll_call
        When all clients are asked for a report, if they ever are; to be set before the first of them comes.
    budget
        Which clients are asked what is new, if not all are; to be set before the first of them comes.
    failing
        Clients that fail or send nonsense.
    deliveries
        How models reach clients that take them, if they do; to be set before the first of them comes.
    """

    def __init__(
        self, exchange: Exchange, presence: Presence, *, reports_from: ReportsFrom, n_features: int | None
    ) -> None:
        self.exchange, self._presence, self.reports_from = exchange, presence, reports_from
        self._roster: Roster | None = None
        self.inbox, self.ledger = Inbox(n_features), Ledger(0)
        self.sharing: Sharing | None = None
        self.roll_call: RollCall | None = None
        self.budget: ReportBudget | None = None
        self.failing = FailingClients()
        self._round_index, self._n_sent, self._n_answers = 0, 0, 0
        self.deliveries: Deliveries | None = None
        self.round_costs: dict[str, float] = {}
        self.keys: Hashes = np.empty(0, dtype=np.uint64)
        self._introduced: dict[int, int] = {}  # partitions that nodes named late, by address
        self._owed: dict[tuple[int, Verb], str] = {}  # what late answers are charged as, by address
        self._is_new, self._is_first = True, True

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """All clients that ever came."""
        return () if self._roster is None else self._roster.client_ids

    def address(self, client: int) -> int | None:
        """Return the address of a client; None if it cannot be reached."""
        return None if self._roster is None else self._roster.address(client)

    def take_reports(self, round_index: int) -> ReportBatch:
        """Return the reports that act now, sent in this round or before; perhaps others are asked for theirs."""
        reports = self.inbox.take_all(self.client_ids)
        clients = self.places(reports.client_ids)
        if self.budget is not None:
            self.budget.note_reports(clients)
        roll_call = self.roll_call if self.reports_from == "drifted" else None
        if roll_call is not None and clients.size and reports.n_samples is not None:
            roll_call.hear(clients, reports.representations, reports.n_samples, round_index=round_index)
        return reports

    def places(self, client_ids: Sequence[ClientId]) -> Counts:
        """Return the places of some clients."""
        found = [] if self._roster is None else [self._roster.place(one) for one in client_ids]
        return np.array(found, dtype=np.int64)

    def confirmed(self, client: int) -> int:
        """Return the number of a client's newest report; that of none if another one is wanted, whatever is new."""
        is_asked = self.roll_call is not None and self.roll_call.is_asked[client : client + 1].any()
        return NO_REPORT if is_asked else int(self.inbox.confirmed[client])

    @property
    def is_unanswered(self) -> bool:
        """Whether no client has answered in this round, be it late or that it failed, and some were asked or busy."""
        is_busy = bool(self.exchange.owing() or self.exchange.answering())
        return self._n_answers == 0 and (self._n_sent > 0 or is_busy)

    def free(self) -> Mask:
        """Return which clients can be reached and owe no answer, shape ``(n_clients,)``.

        Those that failed lately are left alone, unless there are no others.
        """
        if self._roster is None:
            return np.empty(0, dtype=np.bool_)
        free = self._roster.online()
        owing = [client for at in self.exchange.owing() if (client := self._roster.client_at(at)) is not None]
        free[owing] = False
        rested = free & ~self.failing.rests(self._round_index)
        return rested if rested.any() else free

    def answering(self) -> tuple[Mask, int]:
        """Return which clients are still to answer a question that is not waited for, shape ``(n_clients,)``.

        And how many of them may do so in time: nodes that hang must not use up the budget.
        """
        mask, answering = np.zeros(len(self.client_ids), dtype=np.bool_), self.exchange.answering()
        mask[[client for at in answering if (client := self._client_at(at)) is not None]] = True
        return mask, sum(answering.values())

    def close(self) -> None:
        """Let no client join any more; those that are known come and go as before."""
        if self._roster is not None:
            self._roster.close()

    # ---- nodes come and go -----------------------------------------------------------------------------------------

    def arrive(self, round_index: int) -> tuple[tuple[Node, ...], RosterChanges]:
        """Begin a round: wait until enough nodes are free, and return all of them, and what is new."""
        self.round_costs = dict.fromkeys(COSTS, 0)
        self._round_index, self._n_sent, self._n_answers = round_index, 0, 0
        nodes = self._wait_for_nodes()
        identity = identity_of(nodes)
        roster = self._roster = self._roster or Roster(identity)
        if nodes and roster.identity != identity:
            raise InputError(
                f"clients of this run are known by {roster.identity}, those that are there now by {identity}; "
                "go on with the engine that the run began with, or begin anew in another folder"
            )
        self.take_late()
        changes = roster.see(nodes)
        if roster.identity == "partition":  # nodes that named theirs late have joined; those that owe it are not asked
            late, self._introduced = self._introduced, {}
            joined, owing = roster.learn(late), self.exchange.owing()
            unknown = [at for at in changes.unknown if roster.client_at(at) is None and at not in owing]
            changes = replace(changes, joined=(*changes.joined, *joined), unknown=tuple(unknown))
        self._make_room()
        if changes.turned_away:
            _LOG.warning(
                "%d nodes came after the start and are left out, for example %s: the method of this run cannot take in "
                "clients; begin anew in another folder with all of them, or choose one that can, such as fielding",
                len(changes.turned_away),
                changes.turned_away[0],
            )
        for what, clients in (("joined", changes.joined), ("came back", changes.returned), ("left", changes.left)):
            if clients:
                _LOG.info("%d clients %s, for example %s", len(clients), what, echo(clients[0]))
        return nodes, changes

    def _wait_for_nodes(self) -> tuple[Node, ...]:
        if self._is_first:
            wanted, within_s = self._presence.min_nodes, self._presence.within_s
            free = self.exchange.gather(wanted, within_s=within_s)
            if len(free) < wanted and self._is_new:  # of a run that goes on some may be gone for good
                raise InputError(
                    f"{len(free)} nodes could be reached within {within_s:g} s, {wanted} are wanted; start more nodes, "
                    "then start again"
                )
            self._is_new, self._is_first = False, False
        while not self.exchange.gather(1, within_s=_TELL_S):  # an outage must not end a run that has begun
            _LOG.warning("no node is there, or all still owe an answer: the run waits until one is free")
            self.exchange.forgive()
        # If all that could train are busy, the round waits for one of them: else it would be spent on questions alone.
        deadline_s = self.exchange.patience.deadline_s
        if any(self._can_train(node) for node in self.exchange.look()):
            self.exchange.gather(1, within_s=deadline_s, of=self._can_train)
        return self.exchange.look()

    def _can_train(self, node: Node) -> bool:
        """Return whether the client of a node was heard of, and has data."""
        client = self._client_at(node.address)
        if client is None:
            return False
        is_known = self.reports_from == "nobody" or bool(self.inbox.confirmed[client] != NO_REPORT)
        return is_known and bool(self.inbox.n_samples[client] != 0)

    def introduce(self, nodes: Sequence[int], order: Order, *, with_report: bool) -> None:
        """Let nodes name their partitions, by address; clients may join by it."""
        tasks = self.with_views([Task(address=at, order=order) for at in nodes], is_start=with_report)
        settled, _ = self.send(tasks)
        if self._roster is not None and self._roster.identity == "partition":
            found = {at: _partition(one.answer) for at, one in zip(nodes, settled, strict=True)}
            joined = self._roster.learn({at: part for at, part in found.items() if part is not None})
            self._make_room()
            _LOG.info("%d clients joined", len(joined))
        for task, one in zip(tasks, settled, strict=True):
            self.take_in(task, one, with_report=with_report)
        self.take_late()
        if with_report and settled and all(one.reason == "failed" for one in settled):
            raise InputError(f"no node can tell of its data; one of {len(nodes)} said: {settled[0].text}")

    def _make_room(self) -> None:
        """Lengthen all arrays by client."""
        ids = self.client_ids
        self.ledger.grow(len(ids))
        self.inbox.grow(len(ids))
        for by_client in (self.sharing, self.budget, self.failing, self.deliveries):
            if by_client is not None:
                by_client.grow(len(ids))
        new = [client_key(one) for one in ids[self.keys.size :]]
        self.keys = np.concatenate([self.keys, np.array(new, dtype=np.uint64)])

    def with_views(self, tasks: Sequence[Task], *, is_start: bool = True) -> list[Task]:
        """Return tasks whose orders bring along what their clients lack of the shared model, if it matters.

        After the start, a node that has not yet named its partition may hold it: its next order will tell.
        """
        sharing, viewed = self.sharing, list(tasks)
        if sharing is None or self.reports_from == "nobody":
            return viewed
        for at, task in enumerate(tasks):
            if isinstance(task.order, (TrainOrder, DescribeOrder)):
                client = self._client_at(task.address)
                view = sharing.view_for(client) if client is not None or is_start else sharing.bare_view()
                viewed[at] = replace(task, order=replace(task.order, shared=view))
        return viewed

    def with_deliveries(self, tasks: Sequence[Task], heard: Vector | None) -> list[Task]:
        """Return tasks whose orders bring along the models that their clients are to serve and lack.

        ``heard``: recent losses of the experts of all clients, if they have some.
        """
        if self.deliveries is None:
            return list(tasks)
        return self.deliveries.attach(tasks, self._client_at, self.client_ids, heard)

    def _client_at(self, address: int) -> int | None:
        return None if self._roster is None else self._roster.client_at(address)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def send(self, tasks: Sequence[Task], wanted: Mapping[int, int] | None = None) -> tuple[tuple[Settled, ...], float]:
        """Push all tasks at once, and wait for answers, see :meth:`Exchange.send`; they still have to be taken in."""
        settled, duration_s = self.exchange.send(tasks, wanted)
        for task, one in zip(tasks, settled, strict=True):
            if one.answer is None and one.bytes_down:  # it was sent: if an answer comes, it is charged as this order
                self._owed[task.address, task.order.verb] = category_of(task.order)
        return settled, duration_s

    def take_in(self, task: Task, settled: Settled, *, with_report: bool = True) -> None:
        """Charge a task, and take note of what its answer tells of the client's data.

        What the order brings of the shared model counts as a report, as in the simulator.
        """
        order, client = task.order, self._client_at(task.address)
        self._n_sent += settled.bytes_down > 0
        self._n_answers += is_from_client(settled.answer)
        if settled.reason in ("straggler", "offline") and (task.is_awaited or settled.answer is not None):
            _LOG.info("%s, %s: %s (%s)", self._name(task.address), order.verb, settled.reason, settled.text)
        if settled.answer is not None:
            self._judge(task.address, order.verb, settled.answer)
        if client is not None:
            view = order.shared if isinstance(order, (TrainOrder, DescribeOrder)) else None
            n_shared = 0 if view is None else min(view.n_bytes, settled.bytes_down)
            if n_shared:
                self._charge("report", client, Settled(reason=None, bytes_down=n_shared))
            delivery = None if isinstance(order, ProbeOrder) else order.deliver
            n_delivered = 0 if delivery is None else min(delivery.n_bytes, settled.bytes_down - n_shared)
            if n_delivered:
                self._charge("model", client, Settled(reason=None, bytes_down=n_delivered))
                self._count("delivered_bytes", n_delivered)
            left = settled.bytes_down - n_shared - n_delivered
            self._charge(category_of(order), client, replace(settled, bytes_down=left))
            self._hear(client, settled.answer, with_report=with_report)
            holding = _holding(settled.answer)
            if delivery is not None and holding is not None and holding.key == delivery.key:
                self._count("n_delivered", 1)

    def take_late(self) -> None:
        """Take note of what answers tell that came after their exchange."""
        for late in self.exchange.take_late():
            client = self._client_at(late.address)
            self._judge(late.address, late.verb, late.answer)
            self._n_answers += is_from_client(late.answer)
            if client is not None:
                category = self._owed.get((late.address, late.verb), _CATEGORIES[late.verb])
                self._charge(category, client, Settled(reason=None, bytes_up=late.bytes_up))
                self._hear(client, late.answer, with_report=True)
            elif (partition := _partition(late.answer)) is not None:
                self._introduced[late.address] = partition
        for client, report in [] if self.sharing is None else self.sharing.settle():
            self._keep(client, report)

    def _name(self, address: int) -> str:
        client = self._client_at(address)
        return f"node {address}" if client is None else f"client {echo(self.client_ids[client])}"

    def _judge(self, address: int, verb: Verb, answer: Answer) -> None:
        """Take note whether a client failed or gave a sound answer; what Flower says in its place shows nothing."""
        client = self._client_at(address)
        if isinstance(answer, Refusal) and answer.reason == "failed":
            if client is None:
                _LOG.warning("%s, %s: failed (%s)", self._name(address), verb, answer.text)
                return
            n_failures = self.failing.note(client, verb, self._round_index, answer.text)
            again = (n_failures, self.failing.asked_from(client))
            _LOG.warning(
                "%s, %s: failed (%s), %d times in a row: it is asked again from round %d on",
                *(self._name(address), verb, answer.text, *again),
            )
        elif client is not None and is_from_client(answer):
            self.failing.forgive(client, verb)

    def _hear(self, client: int, answer: Answer | None, *, with_report: bool) -> None:
        if isinstance(answer, (TrainReply, DescribeReply)):
            self.inbox.n_samples[client] = answer.n_samples
            if self.sharing is not None:
                self.sharing.note(client, answer.holds)
        if self.deliveries is not None:
            self.deliveries.note(client, self.client_ids[client], _holding(answer))
        report = answer.report if isinstance(answer, (TrainReply, DescribeReply, Refusal)) else None
        if report is not None and with_report and report.number > self.inbox.confirmed[client]:
            if self.sharing is None and report.tally is not None:
                _LOG.warning("client %s reports sums, but no model is shared: refused", echo(self.client_ids[client]))
                return
            taken = report if self.sharing is None else self.sharing.accept(client, report)
            if taken is not None:
                self._keep(client, taken)

    def _keep(self, client: int, report: Report) -> None:
        """Keep a new report if the method hears it; else it has come all the same and need not come again."""
        had_any = bool(self.inbox.confirmed[client])
        if self.reports_from == "nobody" or (self.reports_from == "first" and had_any):
            self.inbox.confirmed[client] = report.number
        elif not self.inbox.take(client, report):
            sizes = (report.representation.size, self.inbox.n_features)
            _LOG.warning("client %s reports %d numbers instead of %s: refused", echo(self.client_ids[client]), *sizes)

    def _count(self, name: str, amount: int) -> None:
        """Add to a figure of the round that is there only if it is not 0."""
        self.round_costs[name] = self.round_costs.get(name, 0) + amount

    def _charge(self, category: str, client: int, settled: Settled) -> None:
        amounts = (settled.bytes_down, settled.bytes_up, settled.seconds)
        self.ledger.charge(category, [client], down_bytes=amounts[0], up_bytes=amounts[1], seconds=amounts[2])
        for name, amount in zip(COSTS, amounts, strict=True):
            self.round_costs[name] += amount

    def expect(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Give the clients of a former run their places; what they reported to it counts for nothing here."""
        self._roster = Roster.from_arrays(arrays)
        self._make_room()

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs beside the ledger: the ids of clients, and their reports."""
        roster = Roster() if self._roster is None else self._roster
        shared = {} if self.sharing is None else self.sharing.arrays()
        called = {} if self.roll_call is None else self.roll_call.arrays()
        budget = {} if self.budget is None else self.budget.arrays()
        delivered = {} if self.deliveries is None else self.deliveries.arrays()
        own = {**self.inbox.arrays(), **self.failing.arrays()}
        return {**roster.arrays(), **own, **shared, **called, **budget, **delivered}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]], ledger: Ledger) -> None:
        """Go on from what :meth:`arrays` gave; no client is there yet."""
        self._roster, self.ledger = Roster.from_arrays(arrays), ledger
        self.inbox.restore(arrays)
        if self.sharing is not None:
            self.sharing.restore(arrays)
        if self.roll_call is not None:
            self.roll_call.restore(arrays)
        if self.budget is not None:
            self.budget.restore(arrays)
        self.failing.restore(arrays)
        if self.deliveries is not None:
            self.deliveries.restore(arrays)
        self.keys = np.empty(0, dtype=np.uint64)
        self._make_room()
        self._is_new, self._is_first = False, True


def is_from_client(answer: Answer | None) -> bool:
    """Return whether an answer came from a client; Flower says in its place that it is slow or gone."""
    return answer is not None and not (isinstance(answer, Refusal) and answer.reason in ("straggler", "offline"))


def _holding(answer: Answer | None) -> Holding | None:
    return answer.holding if isinstance(answer, (TrainReply, DescribeReply, EvaluateReply)) else None


def _partition(answer: Answer | None) -> int | None:
    return answer.partition if isinstance(answer, DescribeReply) else None
