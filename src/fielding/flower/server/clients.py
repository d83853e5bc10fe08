"""The door, in a deployment: clients behind Flower's nodes, one exchange per round."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.errors import InputError
from fielding.federation.budget import invited_count
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.flower.server.contacts import Contacts, Presence
from fielding.flower.server.exchange import Exchange, Settled, Task
from fielding.flower.server.sharing import Sharing
from fielding.flower.wire.orders import (
    ALSO,
    NO_LAYOUT,
    NO_REPORT,
    Block,
    DescribeOrder,
    EvaluateOrder,
    EvaluateReply,
    ProbeOrder,
    ProbeReply,
    TrainOrder,
    TrainReply,
    Wanted,
    WorkRule,
)
from fielding.methods.kinds import ReportsFrom
from fielding.rng import Hashes, hashed
from fielding.traces.histograms import WindowPlan
from fielding.training.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBook:
    """What all orders of a run have in common.

    Parameters
    ----------
    run_id
        Which run asks, the same after a restart.
    layout
        What the numbers of a model mean.
    seed
        Of all draws.
    work
        The rule of local work; the client is filled in.
    observe
        What devices keep, and when they report.
    keeps_aside
        Whether clients keep samples aside to judge models by.
    """

    run_id: str
    layout: Layout
    seed: int
    work: WorkRule
    observe: Mapping[str, Json] = field(default_factory=dict)
    keeps_aside: bool = False

    def train(self, plan: TrainingPlan, job: int, *, client: ClientId, round_index: int, confirmed: int) -> TrainOrder:
        """Return the order of a job; with a choice it holds all models of the plan."""
        own = plan.job(job)
        if own.upload_shares is not None and own.upload_shares[0] >= 1.0:
            own = replace(own, upload_shares=None)
        return TrainOrder(
            run_id=self.run_id,
            round_index=round_index,
            seed=self.seed,
            plan=own,
            layout=self.layout,
            work=replace(self.work, client=client),
            confirmed=confirmed,
            observe=self.observe,
        )

    def describe(self, round_index: int, *, confirmed: int) -> DescribeOrder:
        """Return the order to say what is new."""
        return DescribeOrder(
            run_id=self.run_id, round_index=round_index, seed=self.seed, confirmed=confirmed, observe=self.observe
        )

    def evaluate(self, model: Models, *, client: ClientId, round_index: int) -> EvaluateOrder:
        """Return the order to test a model."""
        return EvaluateOrder(
            run_id=self.run_id,
            round_index=round_index,
            seed=self.seed,
            model=model,
            layout=self.layout,
            work=replace(self.work, client=client),
            observe=self.observe,
        )

    def probe(
        self,
        wanted: Wanted,
        models: Models,
        *,
        blocks: tuple[Block, ...],
        client: ClientId,
        round_index: int,
        confirmed: int,
        corrected: bool = False,
        aside: bool = False,
    ) -> ProbeOrder:
        """Return the order to say how models do, or how many samples there are; a row per model, perhaps none."""
        return ProbeOrder(
            run_id=self.run_id,
            round_index=round_index,
            seed=self.seed,
            wanted=wanted,
            models=models,
            layout=self.layout if len(models) else NO_LAYOUT,
            work=replace(self.work, client=client) if len(models) else None,
            blocks=blocks,
            corrected=corrected,
            aside=aside,
            confirmed=confirmed,
            observe=self.observe,
        )


def _no_models() -> Models:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """How models do on the samples of some clients, or how many of these there are.

    Parameters
    ----------
    wanted
        What is asked.
    clients
        Who is asked, shape ``(n_asked,)``; a client may be asked several times, and gets one order all the same.
    blocks
        Per question, the intervals whose samples count; None for the window.
    models
        What it is about, float32, shape ``(n_models, n_numbers)``.
    corrected, aside
        As of ``ProbeOrder``.
    """

    wanted: Wanted
    clients: Counts
    blocks: Sequence[Counts] | None
    models: Models = field(default_factory=_no_models)
    corrected: bool = False
    aside: bool = False

    def block(self, at: int) -> Block:
        """Return the intervals of a question."""
        return None if self.blocks is None else tuple(self.blocks[at].tolist())

    def of_client(self) -> dict[int, list[int]]:
        """Return the questions to each client."""
        found: dict[int, list[int]] = {}
        for at, client in enumerate(self.clients.tolist()):
            found.setdefault(client, []).append(at)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """What clients said.

    Parameters
    ----------
    sizes
        How many samples each question is about, shape ``(n_asked,)``; 0 where there was no answer.
    values
        Losses or shares, shape ``(n_asked, n_models)``; NaN where there was no answer, or there are no such samples.
    """

    sizes: Counts
    values: Matrix


def asked(question: Question, contacts: Contacts, orders: OrderBook, *, round_index: int) -> Answers:
    """Send a question to all whom it is for, and return the answers; equal models travel once.

    Parameters
    ----------
    question
        What is asked.
    contacts
        Where clients are; they are charged.
    orders
        How orders are worded.
    round_index
        The round.
    """
    distinct, place = distinct_rows(question.models)
    models = question.models[distinct]  # one piece of memory, so that it is written once
    sizes = np.zeros(question.clients.size, dtype=np.int64)
    values = np.full((question.clients.size, question.models.shape[0]), np.nan)
    whose, tasks = [], []
    for client, own in question.of_client().items():
        address = contacts.address(client)
        if address is not None:
            order = orders.probe(
                question.wanted,
                models,
                blocks=tuple(question.block(at) for at in own),
                client=contacts.client_ids[client],
                round_index=round_index,
                confirmed=int(contacts.inbox.confirmed[client]),
                corrected=question.corrected,
                aside=question.aside,
            )
            whose.append(own)
            tasks.append(Task(address=address, order=order))
    for own, task, one in zip(whose, tasks, contacts.send(tasks).settled, strict=True):
        contacts.take_in(task, one)
        if one.reason is None and isinstance(one.answer, ProbeReply):
            sizes[own] = one.answer.sizes
            if question.models.size:
                has_samples = one.answer.sizes[:, np.newaxis] > 0
                values[own] = np.where(has_samples, one.answer.values[:, place], np.nan)
    contacts.take_late()
    return Answers(sizes=sizes, values=values)


def distinct_rows(models: Models) -> tuple[Counts, Counts]:
    """Return the first row of each kind of equal models, and for every model its place among these.

    Examples
    --------
    >>> first, place = distinct_rows(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32))
    >>> first.tolist(), place.tolist()
    ([0, 1], [0, 1, 0])
    """
    seen: dict[bytes, int] = {}
    place = [seen.setdefault(model.tobytes(), len(seen)) for model in models]
    _, first = np.unique(np.array(place, dtype=np.int64), return_index=True)
    return first.astype(np.int64), np.array(place, dtype=np.int64)


def gather_updates(plan: TrainingPlan, settled: Sequence[Settled], base: Updates) -> Updates:
    """Return the models that came in time, and who is missing why; in the order of the plan.

    Parameters
    ----------
    plan
        Who was asked what.
    settled
        What became of each job.
    base
        What all answers of the round share, without answers.
    """
    found = [(at, one.answer) for at, one in enumerate(settled) if one.reason is None]
    good = [(at, answer.updates) for at, answer in found if isinstance(answer, TrainReply)]
    slices = [one for _, one in good]
    jobs = np.array([at for at, _ in good], dtype=np.int64)
    starts = np.array([int(one.start[0]) if plan.chooses else int(plan.start[at]) for at, one in good], dtype=np.int64)
    seconds = np.array([one.seconds for one in settled], dtype=np.float64)
    names: tuple[Reason, ...] = ("straggler", "offline", "refused", "failed")
    none = np.empty(0)
    return replace(
        base,
        clients=plan.clients[jobs],
        groups=plan.groups[jobs],
        start=starts,
        models=np.concatenate([base.models, *(one.models for one in slices)]),
        n_samples=np.concatenate([none, *(one.n_samples for one in slices)]).astype(np.int64),
        loss=np.concatenate([none, *(one.loss for one in slices)]),
        square_loss=np.concatenate([none, *(one.square_loss for one in slices)]),
        start_loss=np.concatenate([none, *(one.start_loss for one in slices if one.start_loss is not None)])
        if plan.with_start_loss
        else None,
        missing={
            name: [int(plan.clients[at]) for at, one in enumerate(settled) if one.reason == name] for name in names
        },
        jobs=jobs,
        late=np.array([at for at, one in enumerate(settled) if one.reason == "straggler"], dtype=np.int64),
        seconds=seconds,
        compute_seconds=seconds,  # it is not known which part of them the network took
    )


def gather_scores(clients: Sequence[int], settled: Sequence[Settled]) -> ClientScores:
    """Return how well those who answered, and have test samples, are served; clients rise."""
    found = [
        (client, one.answer.scores)
        for client, one in zip(clients, settled, strict=True)
        if one.reason is None and isinstance(one.answer, EvaluateReply) and one.answer.scores.clients.size
    ]
    own = np.array([client for client, _ in found], dtype=np.int64)
    # Of clients that did no more than test, it is not known how they would fare: then nothing is told of the others.
    names = [name for name in ALSO if found and all(name in scores.also for _, scores in found)]
    also = {name: _stack(own, [scores.also[name] for _, scores in found]) for name in names}
    return replace(_stack(own, [scores for _, scores in found]), also=also)


def _stack(clients: Counts, slices: Sequence[ClientScores]) -> ClientScores:
    none = np.empty(0, dtype=np.int64)
    return ClientScores(
        clients=clients,
        n_test=np.concatenate([none, *(one.n_test for one in slices)]),
        correct=np.concatenate([none, *(one.correct for one in slices)]),
        loss=np.concatenate([np.empty(0), *(one.loss for one in slices)]),
    )


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


def job_tasks(plan: TrainingPlan, contacts: Contacts, orders: OrderBook, *, round_index: int) -> dict[int, Task]:
    """Return the task of each job of a plan whose client can be reached."""
    found: dict[int, Task] = {}
    for job, client in enumerate(plan.clients.tolist()):
        address = contacts.address(client)
        if address is not None:
            order = orders.train(
                plan,
                job,
                client=contacts.client_ids[client],
                round_index=round_index,
                confirmed=int(contacts.inbox.confirmed[client]),
            )
            found[job] = Task(address=address, order=order, group=int(plan.groups[job]))
    return found


def question_tasks(plan: TrainingPlan, contacts: Contacts, orders: OrderBook, *, round_index: int) -> list[Task]:
    """Return what those are asked who do not train: what is new, if somebody wants to know."""
    others, inbox, reports_from = contacts.free(), contacts.inbox, contacts.reports_from
    others[plan.clients] = False
    if reports_from == "nobody":
        others &= inbox.n_samples == 0  # else they would never train again
    elif reports_from in ("first", "participants"):
        others &= (inbox.n_samples == 0) | (inbox.confirmed == NO_REPORT)
    return [
        Task(address=address, order=orders.describe(round_index, confirmed=int(inbox.confirmed[client])))
        for client in np.flatnonzero(others).tolist()
        if (address := contacts.address(client)) is not None
    ]


def evaluation_tasks(
    models: Models, row: Counts, contacts: Contacts, orders: OrderBook, *, round_index: int
) -> dict[int, Task]:
    """Return the test of every client that can be reached, by client; ``row``: which of the models serves each."""
    found: dict[int, Task] = {}
    for client in np.flatnonzero(contacts.free()).tolist():
        address = contacts.address(client)
        if address is not None:
            order = orders.evaluate(
                models[int(row[client])], client=contacts.client_ids[client], round_index=round_index
            )
            found[client] = Task(address=address, order=order)
    return found


_GONE = Settled(reason="offline", text="the node is gone")


class FlowerClients:
    """All clients of a deployment, at one round at a time; see :class:`~fielding.engine.round.Driver`.

    A round is one exchange: whoever is chosen trains, the others say whether their data moved. What they say acts in
    the next round. Only before the first round everybody is asked. Whatever else a method asks is one more exchange
    each time.

    Parameters
    ----------
    exchange
        The way to nodes.
    orders
        How orders are worded.
    presence
        How many nodes are needed.
    overcommit
        How many are asked for each answer that is wanted.
    plan
        Rounds between arrivals of data and length of windows, by which intervals are counted.
    n_features
        The length of a representation, if it is known.
    sharing
        How a shared model reaches clients; None: they need none.
    clock
        What the time is, in seconds from anywhere.
    """

    def __init__(
        self,
        exchange: Exchange,
        orders: OrderBook,
        *,
        presence: Presence,
        overcommit: float = 1.0,
        plan: WindowPlan,
        n_features: int | None = None,
        sharing: Sharing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contacts = Contacts(exchange, presence, reports_from="drifted", n_features=n_features)
        self._contacts.sharing = sharing
        self._orders, self._overcommit, self._plan = orders, overcommit, plan
        self._clock, self._begun_at, self._before_s = clock, clock(), 0.0
        self._round_index, self._worked_s = -1, 0.0
        self._has_met, self._failing = False, FailingRounds()

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """All clients that ever came, in the order in which they did."""
        return self._contacts.client_ids

    @property
    def ledger(self) -> Ledger:
        """What was charged so far: training as ``model``, other news as ``report``, tests as ``probe``."""
        return self._contacts.ledger

    @property
    def round_costs(self) -> Mapping[str, float]:
        """What this round cost so far."""
        return self._contacts.round_costs

    @property
    def round_index(self) -> int:
        """The round in hand."""
        return self._round_index

    @property
    def worked_s(self) -> float:
        """Seconds that the exchange of this round took."""
        return self._worked_s

    @property
    def now_s(self) -> float:
        """Seconds since the run began, without those in which it was stopped."""
        return self._before_s + self._clock() - self._begun_at

    @property
    def interval(self) -> int:
        """The newest interval of data that has come."""
        return max(self._plan.n_first, (self._plan.window + self._round_index) // self._plan.gap) - 1

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model that is due."""
        sharing = self._contacts.sharing
        return (
            sharing is not None and self._contacts.reports_from != "nobody" and sharing.is_time(self._round_index + 1)
        )

    # ---- a round begins --------------------------------------------------------------------------------------------

    def meet(self) -> tuple[ClientId, ...]:
        """Wait for the first clients, let them tell of their data, and return who they are; round 0 begins with it."""
        self._look_around(0)
        self._has_met = True
        return self.client_ids

    def remember(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> tuple[ClientId, ...]:
        """Know the clients of a run that is about to go on, by what :meth:`snapshot` gave, and return who they are."""
        self._contacts.restore(arrays, Ledger(0))
        return self.client_ids

    def listen(self, reports_from: ReportsFrom) -> None:
        """Say whose reports the method hears, before the first round or the next; nobody else is asked for any."""
        self._contacts.reports_from = reports_from
        if reports_from == "nobody":
            self._contacts.inbox.opened(self.client_ids)

    def close(self) -> None:
        """Let nobody join any more: the method cannot take in clients."""
        self._contacts.close()

    def begin(self, round_index: int) -> ReportBatch:
        """See who is there, and return the reports that came in the round before; at the start everybody is asked."""
        if round_index != self._round_index + 1:
            raise InputError(f"round {round_index} cannot follow round {self._round_index}; go round by round")
        if not self._has_met:
            self._look_around(round_index)
        self._round_index, self._worked_s, self._has_met = round_index, 0.0, False
        return self._contacts.inbox.opened(self.client_ids)

    def _look_around(self, round_index: int) -> None:
        """See who is there; at the start everybody is asked for a report."""
        nodes, changes = self._contacts.arrive()
        everybody = tuple(node.address for node in nodes)
        if unknown := everybody if round_index == 0 else changes.unknown:
            # Later the round before is asked about: what is new comes with this round, as from everybody else.
            order = self._orders.describe(max(round_index - 1, 0), confirmed=NO_REPORT)
            self._contacts.introduce(unknown, order, with_report=round_index == 0)
        self._contacts.take_late()
        check_met(self.client_ids, len(nodes))

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what participants sent with their models, if the method hears only those."""
        if self._contacts.reports_from != "participants":
            return NO_REPORTS
        participants = set(clients.tolist())
        return self._contacts.inbox.opened(self.client_ids, participants.__contains__)

    def charge_reports(self) -> None:
        """Do nothing: reports were charged when they came."""

    def share(self, model: Models) -> None:
        """Freeze a model; it goes with the next order to everybody."""
        if self._contacts.sharing is not None:
            self._contacts.sharing.share(model)

    def serve(self, models: Models, row: Counts) -> None:
        """Do nothing: clients get the models that serve them when they train or are tested."""

    # ---- what the door offers --------------------------------------------------------------------------------------

    def askable(self) -> Mask:
        """Return who can be reached, owes no answer and has not said that it has no data."""
        return np.asarray(self._contacts.free() & (self._contacts.inbox.n_samples != 0))

    def fresh(self) -> Mask:
        """Return who may have received samples in this round: nobody says so before it is asked."""
        return self.askable()

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client, by seed, round and its id alone."""
        return hashed(self._orders.seed, purpose, self._round_index, self._contacts.keys[clients])

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        return invited_count(wanted, self._overcommit, available)

    def train(self, plan: TrainingPlan) -> Updates:
        """Send all that this round has to say in one push, and wait until every group has enough answers."""
        contacts, at = self._contacts, self._round_index
        jobs = job_tasks(plan, contacts, self._orders, round_index=at)
        others = [] if plan.is_probe else question_tasks(plan, contacts, self._orders, round_index=at)
        tasks = contacts.with_views([*jobs.values(), *others])
        outcome = contacts.send(tasks, dict(enumerate(plan.wanted.tolist())))
        self._worked_s += outcome.duration_s
        for task, one in zip(tasks, outcome.settled, strict=True):
            contacts.take_in(task, one)
        contacts.take_late()
        found = dict(zip(jobs, outcome.settled, strict=False))
        if found and not plan.is_probe:
            self._failing.note(plan.clients[list(found)].tolist(), list(found.values()), int(contacts.free().sum()))
        none: Counts = np.empty(0, dtype=np.int64)
        base = Updates(
            clients=none,
            groups=none,
            start=none,
            models=np.empty((0, plan.models.shape[1]), dtype=np.float32),
            n_samples=none,
            loss=np.empty(0),
            square_loss=np.empty(0),
            duration_s=outcome.duration_s,
            n_parameters=self._orders.layout.parameter_size,
            learning_rate=self._orders.work.local.rate.at(at),
            round_index=at,
            interval=self.interval,
        )
        return gather_updates(plan, [found.get(job, _GONE) for job in range(plan.clients.size)], base)

    def scores(self, models: Models, row: Counts) -> ClientScores:
        """Let all clients that can be reached test the model that serves them: one exchange."""
        tests = evaluation_tasks(models, row, self._contacts, self._orders, round_index=self._round_index)
        outcome = self._contacts.send(list(tests.values()))
        for task, one in zip(tests.values(), outcome.settled, strict=True):
            self._contacts.take_in(task, one)
        self._contacts.take_late()
        return gather_scores(list(tests), outcome.settled)

    def other_scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:  # noqa: ARG002
        """Return nothing: devices have no other samples than those of their windows."""
        return {}

    def concepts(self) -> None:
        """Return None: nobody knows the true concepts."""

    def heterogeneity(self, membership: Membership) -> None:
        """Return None: nobody sees the data of all clients."""

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,  # noqa: ARG002
        corrected: bool = False,
        aside: bool = False,
    ) -> Matrix:
        """Return the mean loss of models on clients' training samples; NaN for who has none or does not answer.

        Whoever keeps no samples aside is not asked about them.
        """
        if aside and not self._orders.keeps_aside:
            return np.full((clients.size, models.shape[0]), np.nan)
        is_corrected = corrected and self._orders.work.serving.is_corrected
        question = Question(
            wanted="losses", clients=clients, blocks=blocks, models=models, corrected=is_corrected, aside=aside
        )
        return asked(question, self._contacts, self._orders, round_index=self._round_index).values

    def accuracies(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,  # noqa: ARG002
    ) -> Matrix:
        """Return the share of clients' training samples that models get right; otherwise as :meth:`losses`."""
        question = Question(wanted="accuracies", clients=clients, blocks=blocks, models=models)
        return asked(question, self._contacts, self._orders, round_index=self._round_index).values

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Return how many training samples clients have of some intervals; 0 for whoever does not answer."""
        question = Question(wanted="sizes", clients=clients, blocks=blocks)
        return asked(question, self._contacts, self._orders, round_index=self._round_index).sizes

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return who the clients are, and what they told that has not acted yet."""
        return self._contacts.arrays()

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round; who is there now is found out when the next one begins."""
        self._contacts.restore(arrays, ledger)
        self._round_index = round_index
        self._before_s, self._begun_at = float(times[-1]), self._clock()
        return NO_REPORTS
