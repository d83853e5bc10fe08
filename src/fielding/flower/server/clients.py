"""The clients behind Flower's nodes, as an engine drives them: one exchange per round."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.privacy.sums import Asked
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.errors import FieldingError, InputError
from fielding.federation.budget import invited_count
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import TREATMENTS, ClientScores
from fielding.federation.ledger import Ledger
from fielding.federation.noised_sums import NoisedSums
from fielding.federation.report_budget import ReportBudget, sample_clients
from fielding.federation.roll_call import RollCall
from fielding.flower.server.contacts import Contacts, Presence, is_from_client
from fielding.flower.server.delivering import Deliveries
from fielding.flower.server.exchange import Exchange, Settled, Task
from fielding.flower.server.sharing import Sharing
from fielding.flower.wire.orders import (
    NO_LAYOUT,
    NO_REPORT,
    Block,
    DescribeOrder,
    EvaluateOrder,
    EvaluateReply,
    ProbeOrder,
    ProbeReply,
    ServedView,
    TrainOrder,
    TrainReply,
    Wanted,
    WorkRule,
    served_view,
)
from fielding.methods.kinds import ReportsFrom
from fielding.rng import Hashes, hashed
from fielding.runtime.experts import told_names
from fielding.serving.weights import heard_losses
from fielding.traces.histograms import WindowPlan
from fielding.training.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBook:
    """What all orders of a run have in common.

    Parameters
    ----------
    run_id
        Of the run that asks, the same after a restart.
    work
        The rule of local work; the client is filled in.
    observe
        What devices keep, and when they report.
    n_shared
        How many numbers at the beginning of a model all clusters share.
    """

    run_id: str
    layout: Layout
    seed: int
    work: WorkRule
    observe: Mapping[str, Json] = field(default_factory=dict)
    n_shared: int = 0

    def train(
        self,
        plan: TrainingPlan,
        job: int,
        *,
        client: ClientId,
        round_index: int,
        confirmed: int,
        served: ServedView | None = None,
    ) -> TrainOrder:
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
            served=served,
        )

    def describe(self, round_index: int, *, confirmed: int) -> DescribeOrder:
        """Return the order to say what is new."""
        return DescribeOrder(
            run_id=self.run_id, round_index=round_index, seed=self.seed, confirmed=confirmed, observe=self.observe
        )

    def evaluate(
        self, model: Models, *, client: ClientId, round_index: int, served: ServedView | None = None
    ) -> EvaluateOrder:
        """Return the order to test a model."""
        return EvaluateOrder(
            run_id=self.run_id,
            round_index=round_index,
            seed=self.seed,
            model=model,
            layout=self.layout,
            work=replace(self.work, client=client),
            observe=self.observe,
            served=served,
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
            confirmed=confirmed,
            observe=self.observe,
        )


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


def _stack_scores(clients: Counts, slices: Sequence[ClientScores]) -> ClientScores:
    none = np.empty(0, dtype=np.int64)

    def by_expert(what: str) -> dict[str, Any]:
        every = [getattr(one, what) for one in slices]
        return {name: np.concatenate([one[name] for one in every]) for name in every[0]} if every and all(every) else {}

    return ClientScores(
        clients=clients,
        n_test=np.concatenate([none, *(one.n_test for one in slices)]),
        correct=np.concatenate([none, *(one.correct for one in slices)]),
        loss=np.concatenate([np.empty(0), *(one.loss for one in slices)]),
        expert_weights=by_expert("expert_weights"),
        expert_losses=by_expert("expert_losses"),
        expert_correct=by_expert("expert_correct"),
        metrics=_stack_metrics([one.metrics for one in slices]),
    )


def _stack_metrics(told: Sequence[Mapping[str, Vector]]) -> dict[str, Vector]:
    """Return metrics of the user's own that at least half of the clients have: one device cannot fill the logs."""
    n_sent = Counter(name for one in told for name in one)
    return {
        name: np.array([one[name][0] if name in one else np.nan for one in told])
        for name, n_clients in n_sent.items()
        if 2 * n_clients >= len(told)
    }


MOST_ROUNDS = 3  # so many rounds in a row in which all clients that were asked to train failed end a run,
MOST_CLIENTS = 10
"""if so many clients failed in them, or all that are there: a few broken ones may be asked several times in a row."""


class FailingRounds:
    """Counts rounds in a row in which all clients that were asked to train failed.

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

        ``settled`` says what became of the job of each of the ``clients``; ``n_there`` could have been asked.
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


class UnansweredRoundError(FieldingError):
    """No client answered anything in a round: it is not spent, but tried again from the last committed one on."""

    def __init__(self, round_index: int, deadline_s: float) -> None:
        super().__init__(f"no device answered in round {round_index} within {deadline_s:g} s (deadline)")


_GONE = Settled(reason="offline", text="the node is gone")


class FlowerClients:
    """All clients of a deployment, at one round at a time; see :class:`~fielding.engine.round.Driver`.

    A round is one exchange: chosen clients train, others say whether their data moved. What they say acts in the next
    round. With a budget only some of the others are asked, and none of them is waited for: what they say acts in the
    round after it came. Only before the first round, and when a shared model was sent out, all clients are asked.
    Whatever else a method asks is one more exchange each time.

    Parameters
    ----------
    overcommit
        How many are asked for each answer that is wanted.
    plan
        Rounds between arrivals of data and length of windows, by which intervals are counted.
    n_features
        The length of a representation, if it is known.
    sharing
        How a shared model reaches clients; None: they need none.
    roll_call
        When all clients are asked for a report; None: never.
    budget
        Which clients are asked what is new; None: all, and they are waited for.
    n_tested
        How many clients are tested in an evaluation, drawn anew each time; None: all.
    deliveries
        How models reach clients that take them; None: they do not.
    sums
        Adds noise to sums over clients; None: none are asked for.
    clock
        Tells the time, in seconds from anywhere.
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
        roll_call: RollCall | None = None,
        budget: ReportBudget | None = None,
        n_tested: int | None = None,
        deliveries: Deliveries | None = None,
        sums: NoisedSums | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contacts = Contacts(exchange, presence, reports_from="drifted", n_features=n_features)
        self._contacts.sharing, self._contacts.roll_call, self._contacts.budget = sharing, roll_call, budget
        self._contacts.deliveries, self._sums = deliveries, sums
        self._orders, self._overcommit, self._plan, self._n_tested = orders, overcommit, plan, n_tested
        self._clock, self._begun_at, self._before_s = clock, clock(), 0.0
        self._round_index, self._worked_s = -1, 0.0
        self._has_met, self._failing = False, FailingRounds()
        self._figures: Mapping[int, Mapping[str, float]] = {}
        # Recent losses of the experts of all clients, and the models that serve these; None: they have no experts.
        n_experts = len(told_names(orders.work.serving))
        self._heard: Vector | None = np.full(n_experts, np.nan) if n_experts else None
        self._served: tuple[Models, Counts] | None = None

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
        return max(self._plan.n_first, (self._plan.lead + self._round_index) // self._plan.gap) - 1

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model that is due."""
        sharing = self._contacts.sharing
        return (
            sharing is not None and self._contacts.reports_from != "nobody" and sharing.is_time(self._round_index + 1)
        )

    @property
    def round_notes(self) -> Mapping[str, Json]:
        """Which clients fail, and from which round on they are asked again."""
        return self._contacts.failing.record(self.client_ids)

    @property
    def cluster_figures(self) -> Mapping[int, Mapping[str, float]]:
        """What the server's own code measured of the clusters' models in this round, by name."""
        return self._figures

    # ---- a round begins --------------------------------------------------------------------------------------------

    def meet(self) -> tuple[ClientId, ...]:
        """Wait for the first clients, let them tell of their data, and return their ids; round 0 begins with it."""
        self._look_around(0)
        self._has_met = True
        return self.client_ids

    def expect(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Know the clients of a former run, by what its :meth:`snapshot` gave: they come first, as in that run."""
        self._contacts.expect(arrays)

    def remember(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> tuple[ClientId, ...]:
        """Know the clients of a run that is about to go on, by what :meth:`snapshot` gave, and return their ids."""
        self._contacts.restore(arrays, Ledger(0))
        return self.client_ids

    def listen(self, reports_from: ReportsFrom) -> None:
        """Say whose reports the method hears, before the first round or the next; no others are asked for."""
        self._contacts.reports_from = reports_from
        if reports_from == "nobody":
            self._contacts.inbox.take_all(self.client_ids)

    def close(self) -> None:
        """Let no client join any more: the method cannot take in others."""
        self._contacts.close()

    def begin(self, round_index: int) -> ReportBatch:
        """Look for nodes, and return the reports that came in the round before; at the start all are asked for one."""
        if round_index != self._round_index + 1:
            raise InputError(f"round {round_index} cannot follow round {self._round_index}; go round by round")
        if not self._has_met:
            self._look_around(round_index)
        self._round_index, self._worked_s, self._has_met = round_index, 0.0, False
        self._figures = {}
        if self._contacts.deliveries is not None:
            self._contacts.deliveries.begin()
        return self._contacts.take_reports(max(round_index - 1, 0))

    def _look_around(self, round_index: int) -> None:
        """Look for nodes; at the start all are asked for a report."""
        nodes, changes = self._contacts.arrive(round_index)
        if unknown := tuple(node.address for node in nodes) if round_index == 0 else changes.unknown:
            # Later the round before is asked about: what is new comes with this round, as from all other clients.
            order = self._orders.describe(max(round_index - 1, 0), confirmed=NO_REPORT)
            order = replace(order, asks="name" if round_index else "report")
            self._contacts.introduce(unknown, order, with_report=round_index == 0)
        self._contacts.take_late()
        if not self.client_ids:
            raise InputError(
                f"{len(nodes)} nodes are there, but none has said who it is; look at the logs of the nodes, then start "
                "again, perhaps with a longer deadline"
            )

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what participants sent with their models, if the method hears only those."""
        if self._contacts.reports_from != "participants":
            return NO_REPORTS
        participants = set(clients.tolist())
        return self._contacts.inbox.take_all(self.client_ids, participants.__contains__)

    def charge_reports(self) -> None:
        """Do nothing: reports were charged when they came."""

    @property
    def done_s(self) -> None:
        """Nothing: all clusters are at ``now_s``, since they wait for each other in every round."""

    def wait_for_all(self) -> None:
        """Do nothing: clusters wait for each other in every round."""

    def share(self, model: Models) -> None:
        """Freeze a model; it goes with the next order to each client."""
        if self._contacts.sharing is not None:
            self._contacts.sharing.share(model)

    def serve(self, models: Models, row: Counts) -> None:
        """Keep what goes with the next orders: clients get the models that serve them when they train or are tested."""
        self._served = (models, row)
        if self._contacts.deliveries is not None:
            self._contacts.deliveries.serve(self._round_index, models, row)

    # ---- the client API ---------------------------------------------------------------------------------------------

    def askable(self) -> Mask:
        """Return which clients can be reached, owe no answer and have not said that they have no data."""
        return np.asarray(self._contacts.free() & (self._contacts.inbox.n_samples != 0))

    def fresh(self) -> Mask:
        """Return which clients may have received samples in this round: none says so before it is asked."""
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
        jobs: dict[int, Task] = {}
        for job, client in enumerate(plan.clients.tolist()):
            if (address := contacts.address(client)) is not None:
                order = self._orders.train(
                    plan,
                    job,
                    client=contacts.client_ids[client],
                    round_index=at,
                    confirmed=contacts.confirmed(client),
                    served=None if plan.is_probe else self._view(client, self._served),
                )
                jobs[job] = Task(address=address, order=order, group=int(plan.groups[job]))
        others = [] if plan.is_probe else self._questions(plan, is_alone=not jobs)
        tasks = contacts.with_deliveries(contacts.with_views([*jobs.values(), *others]), self._heard)
        settled, duration_s = self._exchange(tasks, dict(enumerate(plan.wanted.tolist())))
        self._worked_s += duration_s
        has_answer = any(is_from_client(one.answer) for one in settled) if jobs else not contacts.is_unanswered
        if not (plan.is_probe or has_answer):
            raise UnansweredRoundError(at, self._contacts.exchange.patience.deadline_s)
        found = dict(zip(jobs, settled, strict=False))
        if found and not plan.is_probe:
            self._failing.note(plan.clients[list(found)].tolist(), list(found.values()), int(contacts.free().sum()))
        updates = self._gather_updates(plan, [found.get(job, _GONE) for job in range(plan.clients.size)], duration_s)
        if self._heard is not None and updates.expert_losses is not None:
            self._heard = heard_losses(self._heard, updates.expert_losses)
        return updates

    def _view(self, client: int, served: tuple[Models, Counts] | None) -> ServedView | None:
        """Return what the experts of a client need, as some models serve it; one that is new has no row yet."""
        if served is None or client >= served[1].size:
            return None
        return served_view(served[0], int(served[1][client]), self._heard, n_shared=self._orders.n_shared)

    def _questions(self, plan: TrainingPlan, *, is_alone: bool) -> list[Task]:
        """Return what clients are asked that do not train: what is new, if the method wants to know.

        If the questions are all that a round has to say, they are waited for: else rounds would pass in no time.
        """
        contacts, inbox, reports_from = self._contacts, self._contacts.inbox, self._contacts.reports_from
        budget, sharing = contacts.budget, contacts.sharing
        others = contacts.free()
        others[plan.clients] = False
        if reports_from == "nobody":
            others &= inbox.n_samples == 0  # else they would never train again
        elif reports_from in ("first", "participants"):
            others &= (inbox.n_samples == 0) | (inbox.confirmed == NO_REPORT)
        asked, is_awaited = np.flatnonzero(others), True
        if budget is not None:
            budget.note_heard(plan.clients, self._round_index)
            if sharing is not None and sharing.is_starting and reports_from != "nobody":
                budget.note_heard(asked, self._round_index)  # first reports are wanted of all, as at the start
            else:
                is_answering, n_busy = contacts.answering()
                draws = self.draws("ask", np.arange(others.size))
                asked = budget.choose(others & ~is_answering, draws, self._round_index, n_busy=n_busy)
                is_awaited = is_alone
        awaited = dict.fromkeys(asked.tolist(), is_awaited)
        if contacts.deliveries is not None:
            # Clients that lack the model that they are to serve are asked, too, as far as the budget of models goes.
            contacted = np.isin(np.arange(others.size), np.concatenate([plan.clients, asked]))
            lacking = contacts.deliveries.lacking(contacts.free() & ~contacts.answering()[0], self.client_ids)
            room = contacts.deliveries.n_left - int(contacted[lacking].sum())
            awaited |= dict.fromkeys(lacking[~contacted[lacking]][: max(0, room)].tolist(), is_alone)
        return [
            Task(
                address=address,
                order=self._orders.describe(self._round_index, confirmed=contacts.confirmed(client)),
                is_awaited=is_due,
            )
            for client, is_due in awaited.items()
            if (address := contacts.address(client)) is not None
        ]

    def _gather_updates(self, plan: TrainingPlan, settled: Sequence[Settled], duration_s: float) -> Updates:
        """Return the models that came in time, and which clients are missing why; in the order of the plan."""
        good = [
            (at, one.answer.updates)
            for at, one in enumerate(settled)
            if one.reason is None and isinstance(one.answer, TrainReply)
        ]
        slices = [one for _, one in good]
        jobs = np.array([at for at, _ in good], dtype=np.int64)
        starts = [int(one.start[0]) if plan.chooses else int(plan.start[at]) for at, one in good]
        seconds = np.array([one.seconds for one in settled], dtype=np.float64)
        reasons: tuple[Reason, ...] = ("straggler", "offline", "refused", "failed")
        none, no_model = np.empty(0), np.empty((0, plan.models.shape[1]), dtype=np.float32)
        experts = told_names(self._orders.work.serving)
        unknown = np.full((1, len(experts)), np.nan)
        return Updates(
            clients=plan.clients[jobs],
            groups=plan.groups[jobs],
            start=np.array(starts, dtype=np.int64),
            models=np.concatenate([no_model, *(one.models for one in slices)]),
            n_samples=np.concatenate([none, *(one.n_samples for one in slices)]).astype(np.int64),
            loss=np.concatenate([none, *(one.loss for one in slices)]),
            square_loss=np.concatenate([none, *(one.square_loss for one in slices)]),
            start_loss=np.concatenate([none, *(one.start_loss for one in slices if one.start_loss is not None)])
            if plan.with_start_loss
            else None,
            expert_losses=np.concatenate(
                [unknown if one.expert_losses is None else one.expert_losses for one in slices]
            )
            if any(one.expert_losses is not None for one in slices)
            else None,
            expert_names=experts,
            metrics=_stack_metrics([one.metrics for one in slices]),
            missing={
                reason: [int(plan.clients[at]) for at, one in enumerate(settled) if one.reason == reason]
                for reason in reasons
            },
            duration_s=duration_s,
            n_parameters=self._orders.layout.parameter_size,
            learning_rate=self._orders.work.local.rate.at(self._round_index),
            round_index=self._round_index,
            interval=self.interval,
            jobs=jobs,
            late=np.array([at for at, one in enumerate(settled) if one.reason == "straggler"], dtype=np.int64),
            seconds=seconds,
            compute_seconds=seconds,  # it is not known which part of them the network took
        )

    def scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:
        """Let clients that can be reached, all or a sample, test the models that serve them: one exchange.

        On their windows alone: devices test what they are sent, and what comes next is not there yet.
        """
        contacts, free = self._contacts, self._contacts.free()
        if contacts.deliveries is not None:
            contacts.deliveries.release(self._round_index, models, row)
        if self._n_tested is not None:
            free &= contacts.inbox.n_samples != 0
        tests: dict[int, Task] = {}
        for client in sample_clients(free, self.draws("test", np.arange(free.size)), self._n_tested).tolist():
            if (address := contacts.address(client)) is not None:
                order = self._orders.evaluate(
                    models[int(row[client])],
                    client=contacts.client_ids[client],
                    round_index=self._round_index,
                    served=self._view(client, (models, row)),
                )
                tests[client] = Task(address=address, order=order)
        settled, _ = self._exchange(contacts.with_deliveries(list(tests.values()), self._heard))
        found = [
            (client, one.answer.scores)
            for client, one in zip(tests, settled, strict=True)
            if one.reason is None and isinstance(one.answer, EvaluateReply) and one.answer.scores.clients.size
        ]
        tested = np.array([client for client, _ in found], dtype=np.int64)
        # What clients do to a model counts only if all of them have it.
        names = [name for name in TREATMENTS if found and all(name in scores.also for _, scores in found)]
        also = {name: _stack_scores(tested, [scores.also[name] for _, scores in found]) for name in names}
        window = _stack_scores(tested, [scores for _, scores in found])
        if contacts.budget is not None:
            contacts.budget.note_losses(window.clients, window.loss)
        n_of = None if self._n_tested is None else int(free.sum())
        window = replace(window, also=also, n_of=n_of)
        if contacts.deliveries is not None:
            self._figures = contacts.deliveries.measure()
            contacts.deliveries.record(window, row)
        return {"window": window}

    def concepts(self) -> None:
        """Return None: a deployment does not know the true concepts."""

    def heterogeneity(self, membership: Membership) -> None:
        """Return None: a deployment does not see the data of clients."""

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,  # noqa: ARG002
        corrected: bool = False,
    ) -> Matrix:
        """Return the mean loss of models on clients' training samples; NaN without samples or an answer."""
        is_corrected = corrected and self._orders.work.serving.is_corrected
        return self._ask("losses", clients, blocks, models, corrected=is_corrected)[1]

    def accuracies(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,  # noqa: ARG002
    ) -> Matrix:
        """Return the share of clients' training samples that models get right; otherwise as :meth:`losses`."""
        return self._ask("accuracies", clients, blocks, models)[1]

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Return how many training samples clients have of some intervals; 0 without an answer."""
        return self._ask("sizes", clients, blocks, np.empty((0, 0), dtype=np.float32))[0]

    def _ask(
        self,
        wanted: Wanted,
        clients: Counts,
        blocks: Sequence[Counts] | None,
        models: Models,
        *,
        corrected: bool = False,
    ) -> tuple[Counts, Matrix]:
        """Ask clients how models do on their samples, or how many of these there are: one exchange.

        A client may be asked several times, and gets one order all the same; equal models travel once. Returned are
        the numbers of samples, shape ``(n_asked,)``, 0 without an answer; and losses or shares, shape
        ``(n_asked, n_models)``, NaN without an answer or samples.
        """
        contacts = self._contacts
        distinct, place = distinct_rows(models)
        sent = models[distinct]  # one piece of memory, so that it is written once
        questions: dict[int, list[int]] = {}
        for at, client in enumerate(clients.tolist()):
            questions.setdefault(client, []).append(at)
        tasks: dict[int, Task] = {}
        free = contacts.free()
        for client, own in questions.items():
            if free[client] and (address := contacts.address(client)) is not None:
                order = self._orders.probe(
                    wanted,
                    sent,
                    blocks=tuple(None if blocks is None else tuple(blocks[at].tolist()) for at in own),
                    client=contacts.client_ids[client],
                    round_index=self._round_index,
                    confirmed=contacts.confirmed(client),
                    corrected=corrected,
                )
                tasks[client] = Task(address=address, order=order)
        settled, _ = self._exchange(list(tasks.values()))
        sizes, values = np.zeros(clients.size, dtype=np.int64), np.full((clients.size, models.shape[0]), np.nan)
        for client, one in zip(tasks, settled, strict=True):
            if one.reason is None and isinstance(one.answer, ProbeReply):
                own = questions[client]
                sizes[own] = one.answer.sizes
                if models.size:
                    has_samples = one.answer.sizes[:, np.newaxis] > 0
                    values[own] = np.where(has_samples, one.answer.values[:, place], np.nan)
        return sizes, values

    # ---- only sums, with noise (docs/privacy-client.md) ------------------------------------------------------------

    def noised_sum(self, asked: Asked, candidates: tuple[Matrix, ...]) -> Counts | None:
        """Return a sum over the clients that answer, with noise; None once the budget is spent. One exchange."""
        if self._sums is None or not self._sums.grant(self._round_index):
            return None
        answers = self._ask_about_centers(asked, np.flatnonzero(self._contacts.free()), candidates)
        n_labels = candidates[0].shape[1]
        size = len(candidates) if asked == "silhouettes" else len(candidates[0]) * (n_labels + 1)
        total = np.zeros(size, dtype=np.int64)
        for values in answers.values():
            total += values.astype(np.int64)
        return self._sums.noised(total, self._round_index)

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        """Return the cluster that clients ask for; -1 without data or an answer. One exchange."""
        answers = self._ask_about_centers("cluster", clients, (centers,))
        return np.array([int(answers[one][0]) if one in answers else -1 for one in clients.tolist()], dtype=np.int32)

    def _ask_about_centers(self, wanted: Wanted, clients: Counts, candidates: tuple[Matrix, ...]) -> dict[int, Vector]:
        """Return what each client with data answers about sets of centers."""
        contacts, free = self._contacts, self._contacts.free()
        centers = np.concatenate(candidates).astype(np.float32)
        tasks: dict[int, Task] = {}
        for client in clients.tolist():
            if free[client] and (address := contacts.address(client)) is not None:
                order = self._orders.probe(
                    wanted,
                    centers,
                    blocks=(None,),
                    client=contacts.client_ids[client],
                    round_index=self._round_index,
                    confirmed=contacts.confirmed(client),
                )
                id_epsilon = None if self._sums is None else self._sums.rule.id_epsilon
                order = replace(
                    order,
                    layout=NO_LAYOUT,
                    work=None,
                    sets=tuple(len(one) for one in candidates),
                    id_epsilon=id_epsilon if wanted == "cluster" else None,
                )
                tasks[client] = Task(address=address, order=order)
        settled, _ = self._exchange(list(tasks.values()))
        return {
            client: one.answer.values[0]
            for client, one in zip(tasks, settled, strict=True)
            if one.reason is None and isinstance(one.answer, ProbeReply) and one.answer.sizes[0]
        }

    def _exchange(
        self, tasks: Sequence[Task], wanted: Mapping[int, int] | None = None
    ) -> tuple[tuple[Settled, ...], float]:
        """Send tasks and take in all that their answers tell; see :meth:`Exchange.send`."""
        settled, duration_s = self._contacts.send(tasks, wanted)
        for task, one in zip(tasks, settled, strict=True):
            self._contacts.take_in(task, one)
        self._contacts.take_late()
        return settled, duration_s

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the ids of the clients, their reports that have not acted yet, and what they told of experts."""
        heard = {} if self._heard is None else {"expert_heard": self._heard}
        return {**self._contacts.arrays(), **heard}

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round; which nodes are there is found out when the next one begins."""
        self._contacts.restore(arrays, ledger)
        if self._heard is not None and "expert_heard" in arrays:
            self._heard = arrays["expert_heard"].astype(np.float64)
        self._round_index = round_index
        if self._contacts.deliveries is not None:
            self._contacts.deliveries.return_to(round_index)
        self._before_s, self._begun_at = float(times[-1]), self._clock()
        return NO_REPORTS
