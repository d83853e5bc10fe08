"""The door, in a deployment: clients behind Flower's nodes, one exchange per round."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Mask, Membership, Models
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.errors import InputError
from fielding.federation.budget import invited_count
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.flower.contacts import Contacts, Presence
from fielding.flower.exchange import Exchange
from fielding.flower.order_book import OrderBook, check_plan
from fielding.flower.orders import NO_REPORT
from fielding.flower.outcomes import Circumstances, scores_of, updates_of
from fielding.flower.tasks import Settled, Task
from fielding.methods.kinds import Hears
from fielding.rng import Hashes, hashed

_GONE = Settled(reason="offline", text="the node is gone")


class FlowerClients:
    """All clients of a deployment, at one round at a time; see :class:`~fielding.engine.driver.Driver`.

    A round is one exchange: whoever is chosen trains, the others say whether their data moved. What they say acts in
    the next round. Only before the first round everybody is asked.

    Parameters
    ----------
    exchange
        The way to nodes.
    orders
        How orders are worded.
    presence
        How many nodes are needed.
    hears
        Whose reports the method hears; nobody else is asked for any.
    overcommit
        How many are asked for each answer that is wanted.
    gap
        Rounds between arrivals of data, by which intervals are counted.
    n_features
        The length of a representation, if it is known.
    clock
        What the time is, in seconds from anywhere.
    """

    def __init__(  # noqa: PLR0913 - the one place where all parts of a deployment meet
        self,
        exchange: Exchange,
        orders: OrderBook,
        *,
        presence: Presence,
        hears: Hears = "drifted",
        overcommit: float = 1.0,
        gap: int = 1,
        n_features: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contacts = Contacts(exchange, presence, hears=hears, n_features=n_features)
        self._orders, self._hears, self._overcommit, self._gap = orders, hears, overcommit, gap
        self._clock, self._begun_at, self._before_s = clock, clock(), 0.0
        self._round_index, self._worked_s = -1, 0.0

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
        return self._round_index // self._gap

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model: never, devices describe their data without one."""
        return False

    # ---- a round begins --------------------------------------------------------------------------------------------

    def begin(self, round_index: int) -> ReportBatch:
        """See who is there, and return the reports that came in the round before; at the start everybody is asked."""
        if round_index != self._round_index + 1:
            raise InputError(f"round {round_index} cannot follow round {self._round_index}; go round by round")
        self._round_index, self._worked_s = round_index, 0.0
        nodes, changes = self._contacts.arrive()
        everybody = tuple(node.address for node in nodes)
        if unknown := everybody if round_index == 0 else changes.unknown:
            # Later the round before is asked about: what is new comes with this round, as from everybody else.
            order = self._orders.describe(max(round_index - 1, 0), confirmed=NO_REPORT)
            self._contacts.introduce(unknown, order, with_report=round_index == 0)
        self._contacts.take_late()
        return self._contacts.inbox.opened(self.client_ids)

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what participants sent with their models, if the method hears only those."""
        if self._hears != "participants":
            return NO_REPORTS
        participants = set(clients.tolist())
        return self._contacts.inbox.opened(self.client_ids, participants.__contains__)

    def charge_reports(self) -> None:
        """Do nothing: reports were charged when they came."""

    def share(self, model: Models) -> None:
        """Do nothing: there is no shared model."""

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
        """Return a random number for each client that depends on seed, round and its id alone."""
        return hashed(self._orders.seed, purpose, self._round_index, self._contacts.keys[clients])

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        return invited_count(wanted, self._overcommit, available)

    def train(self, plan: TrainingPlan) -> Updates:
        """Send all that this round has to say in one push, and wait until every group has enough answers."""
        check_plan(plan)
        jobs = {job: task for job in range(plan.clients.size) if (task := self._job(plan, job)) is not None}
        tasks = [*jobs.values(), *self._questions(plan)]
        outcome = self._contacts.send(tasks, dict(enumerate(plan.wanted.tolist())))
        self._worked_s += outcome.duration_s
        for task, one in zip(tasks, outcome.settled, strict=True):
            self._contacts.take_in(task, one)
        self._contacts.take_late()
        found = dict(zip(jobs, outcome.settled, strict=False))
        circumstances = Circumstances(
            n_parameters=self._orders.layout.parameter_size,
            learning_rate=self._orders.rate.at(self._round_index),
            round_index=self._round_index,
            interval=self.interval,
            duration_s=outcome.duration_s,
        )
        return updates_of(plan, [found.get(job, _GONE) for job in range(plan.clients.size)], circumstances)

    def _job(self, plan: TrainingPlan, job: int) -> Task | None:
        """Return the task of a job; None if its client cannot be reached."""
        client = int(plan.clients[job])
        address = self._contacts.address(client)
        if address is None:
            return None
        order = self._orders.train(
            plan,
            job,
            client=self.client_ids[client],
            round_index=self._round_index,
            confirmed=int(self._contacts.inbox.confirmed[client]),
        )
        return Task(address=address, order=order, group=int(plan.groups[job]))

    def _questions(self, plan: TrainingPlan) -> list[Task]:
        """Return what those are asked who do not train: what is new, if somebody wants to know."""
        asked, inbox = self._contacts.free(), self._contacts.inbox
        asked[plan.clients] = False
        if self._hears == "nobody":
            asked &= inbox.n_samples == 0  # else they would never train again
        elif self._hears in ("first", "participants"):
            asked &= (inbox.n_samples == 0) | (inbox.confirmed == NO_REPORT)
        return [
            Task(
                address=address,
                order=self._orders.describe(self._round_index, confirmed=int(inbox.confirmed[client])),
            )
            for client in np.flatnonzero(asked).tolist()
            if (address := self._contacts.address(client)) is not None
        ]

    def scores(self, models: Models, row: Counts) -> ClientScores:
        """Let all clients that can be reached test the model that serves them: one exchange."""
        places, tasks = [], []
        for client in np.flatnonzero(self._contacts.free()).tolist():
            address = self._contacts.address(client)
            if address is not None:
                model, name = models[int(row[client])], self.client_ids[client]
                order = self._orders.evaluate(model, client=name, round_index=self._round_index)
                places.append(client)
                tasks.append(Task(address=address, order=order))
        outcome = self._contacts.send(tasks)
        for task, one in zip(tasks, outcome.settled, strict=True):
            self._contacts.take_in(task, one)
        self._contacts.take_late()
        return scores_of(places, outcome.settled)

    def other_scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:  # noqa: ARG002
        """Return nothing: devices have no other samples than those of their windows."""
        return {}

    def concepts(self) -> None:
        """Return None: nobody knows the true concepts."""

    def heterogeneity(self, membership: Membership) -> None:
        """Return None: nobody sees the data of all clients."""

    def losses(self, clients: Counts, models: Models, **_how: object) -> NoReturn:  # noqa: ARG002
        """Raise: no order asks for it."""
        _cannot("losses of models on clients' samples")

    def accuracies(self, clients: Counts, models: Models, **_how: object) -> NoReturn:  # noqa: ARG002
        """Raise: no order asks for it."""
        _cannot("accuracies of models on clients' samples")

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> NoReturn:  # noqa: ARG002
        """Raise: no order asks for it."""
        _cannot("numbers of samples of an interval")

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


def _cannot(what: str) -> NoReturn:
    raise InputError(f"the method asks for {what}, which a deployment cannot do; choose fielding or global")
