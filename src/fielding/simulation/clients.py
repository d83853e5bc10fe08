"""The door, in process: clients that train on this machine while a clock says how long it would take on theirs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Mask, Matrix, Membership, Models
from fielding.client.report import ReportBatch
from fielding.errors import InputError
from fielding.federation.budget import invited_count
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.methods.kinds import Hears
from fielding.rng import Hashes, client_key, hashed
from fielding.simulation.accounts import IDLE_S, Accounts
from fielding.simulation.answers import updates_of
from fielding.simulation.fine_tuning import FineTuning
from fielding.simulation.local_training import LocalTraining, Moment
from fielding.simulation.mailbox import Letters, Mailbox
from fielding.simulation.measuring import Measuring
from fielding.simulation.observers import Observer
from fielding.simulation.probing import Probing
from fielding.simulation.questions import Question
from fielding.simulation.sending import sent
from fielding.simulation.served_models import ServedModels
from fielding.simulation.serving import Correcting, Serving
from fielding.simulation.settings import Hardware, LocalRule
from fielding.simulation.settling import Tasks, settled_plan
from fielding.simulation.sharing import Sharing
from fielding.simulation.spoiling import Spoiling
from fielding.simulation.task_costs import without
from fielding.simulation.workers import Workers
from fielding.traces.sliding import SlidingWindows
from fielding.training.label_mix import plain_model
from fielding.training.trainer import Trainer


class SimulatedClients:
    """All clients of a simulation, at one round at a time.

    Parameters
    ----------
    windows
        What they see when.
    observer
        What they report; None if nobody listens.
    trainer
        How they train.
    rule
        How long and how fast they train.
    hardware
        What they run on.
    hears, spoiling
        Whose reports the method hears, and who spoils the models that it sends.
    sharing
        How a shared model reaches the observer; None: it needs none.
    serving
        What clients do to the model that serves them; None: nothing.
    seed, n_workers
        Seed of all draws, and how many threads may train; the latter changes nothing but the time it takes.
    """

    def __init__(
        self,
        windows: SlidingWindows,
        observer: Observer | None,
        trainer: Trainer,
        *,
        rule: LocalRule,
        hardware: Hardware,
        hears: Hears = "drifted",
        sharing: Sharing | None = None,
        spoiling: Spoiling | None = None,
        serving: Serving | None = None,
        seed: int,
        n_workers: int = 1,
    ) -> None:
        self.windows, self.trainer = windows, trainer
        self._accounts = Accounts(windows.n_clients, hardware)
        self._mailbox, self.hears = Mailbox(observer, hears), hears
        self._letters: Letters | None = None
        self._spoiling, self._serving = spoiling, serving or Serving()
        self._rule, self._hardware, self._seed = rule, hardware, seed
        self._workers = Workers(trainer, n_workers)
        self._keys = np.array([client_key(one) for one in windows.schedule.client_ids], dtype=np.uint64)
        self._local = LocalTraining(windows, self._workers, rule, seed=seed, keys=self._keys)
        self._correcting = Correcting(windows, self._workers, self._serving) if self._serving.is_corrected else None
        own_rule = replace(rule, n_steps=self._serving.fine_tune)
        tuning = FineTuning(windows, self._workers, own_rule, seed=seed, keys=self._keys) if own_rule.n_steps else None
        self._measuring = Measuring(windows, self._local.score, seed=seed, correcting=self._correcting, tuning=tuning)
        self._probing = Probing(
            windows=windows,
            local=self._local,
            correcting=self._correcting,
            serving=self._serving,
            is_online=self._accounts.is_online,
            pay=self._accounts.answer,
        )
        self._moment = Moment(round_index=-1, training=windows.training(0))
        self._served = ServedModels(windows, self._local.score, self._correcting)
        self._sharing = sharing or Sharing(None, rounds=0)
        self._sharing.listen(lambda rows: self._served.errors(rows, self._moment.training))

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """The clients."""
        return self.windows.schedule.client_ids

    def on_trained(self, call: Callable[[int, int], None]) -> None:
        """Have somebody told, during a round, how many participants of how many are trained."""
        self._workers.on_trained = call

    def close(self) -> None:
        """Let the worker threads go."""
        self._workers.close()

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self._accounts.now_s

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        return self._accounts.ledger

    @property
    def round_costs(self) -> Mapping[str, float]:
        """What this round cost so far."""
        return self._accounts.round_costs

    @property
    def round_index(self) -> int:
        """The round in hand."""
        return self._moment.round_index

    @property
    def interval(self) -> int:
        """The newest interval of data that has come."""
        return self.windows.n_complete(self.round_index) - 1

    @property
    def worked_s(self) -> float:
        """Wall-clock seconds that local steps took in this round."""
        return self._local.worked_s

    # ---- a round begins ----------------------------------------------------------------------------------------

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive and windows slide, and return the reports of the clients that can be reached.

        Rounds come one after the other, from 0. Whoever is offline reports as soon as it is back.
        """
        if round_index != self.round_index + 1:
            raise InputError(f"round {round_index} cannot follow round {self.round_index}; go round by round")
        self._moment = Moment(round_index=round_index, training=self.windows.training(round_index))
        self._local.worked_s = 0.0
        self._accounts.begin()
        self._letters = self._mailbox.opened(round_index, self._accounts.is_online)
        return self._letters.batch(self.client_ids)

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what clients send with the models that they trained."""
        self._letters = self._mailbox.collected(clients, self.round_index)
        return self._letters.batch(self.client_ids)

    def charge_reports(self) -> None:
        """Charge the reports that came last, and looking at samples for them; the round waits for the slowest."""
        letters, self._letters = self._letters, None
        if letters is not None and (letters.clients.size or letters.looked.clients.size):
            self._accounts.wait(float(self._accounts.charge("report", *letters.costs()).max()))

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model that is due."""
        return self._sharing.is_time(self.round_index + 1)

    def share(self, model: Models) -> None:
        """Send a model to everybody; they are charged for it when they look at samples with it."""
        self._sharing.share(plain_model(model, self.trainer.layout, len(self.windows.pool.classes)))

    def serve(self, models: Models, row: Counts) -> None:
        """Let clients know the models that serve them."""
        self._served.serve(models, row)

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what cannot be found out by going through the data again."""
        return {**self._mailbox.arrays(), **self._local.arrays(), **self._sharing.arrays()}

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round without training again; see :class:`~fielding.engine.driver.Driver`."""
        self._sharing.restore(arrays)
        for done in range(round_index + 1):
            self._accounts.return_to(times[done])
            self._sharing.share_again(done)
            told = self.begin(done)
            self.collect(self._mailbox.sent_in(done, dict(arrays)))
        self._accounts.return_to(times[round_index + 1], ledger)
        self._letters = None
        self._local.restore(arrays)
        self._sharing.share_again(round_index + 1)
        return told

    # ---- what the door offers ----------------------------------------------------------------------------------

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client that depends on seed, round and its id alone."""
        return hashed(self._seed, purpose, self.round_index, self._keys[clients])

    def has_data(self) -> Mask:
        """Return who has something to train on, shape ``(n_clients,)``."""
        return np.asarray(self._moment.training.sizes > 0)

    def fresh(self) -> Mask:
        """Return who can be reached and received training samples in this round, shape ``(n_clients,)``."""
        return self._local.has_new(self._moment) & self._accounts.is_online(np.arange(self.windows.n_clients))

    def askable(self) -> Mask:
        """Return who has data and can be reached now, shape ``(n_clients,)``."""
        return self.has_data() & self._accounts.is_online(np.arange(self.windows.n_clients))

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        return invited_count(wanted, self._hardware.overcommit, available)

    def train(self, plan: TrainingPlan) -> Updates:
        """Find out who answers in time, let those train, charge everyone who was asked, and let time pass."""
        samples = self._local.samples(self._moment, plan.clients, plan.blocks)
        refused = samples.sizes == 0
        costs = without(self._local.costs(plan, samples.sizes, self.round_index), refused)
        tasks = Tasks(costs=costs, seconds=self._accounts.seconds(plan.clients, costs), refused=refused)
        settled = settled_plan(plan, tasks, hardware=self._hardware, now_s=self.now_s)
        spent, category = settled.outcome.spent(costs), "probe" if plan.is_probe else "model"
        self._accounts.charge(category, plan.clients, spent, seconds=tasks.seconds)
        # Without tasks no time would pass, and whoever is offline now would be so for ever.
        self._accounts.wait(settled.outcome.duration_s if (~refused).any() or plan.is_probe else IDLE_S)
        settled = replace(settled, start=self._local.chosen(plan, settled.kept, samples))
        at_hand = self._local.at_hand(settled, samples, self.round_index)
        trained = self._local.train(settled, at_hand, self.round_index)
        trained = sent(trained, settled, self.draws("send", plan.clients[settled.kept]), self._spoiling)
        circumstances = self._local.circumstances(self.round_index, self.interval)
        updates = updates_of(settled, trained, at_hand.sizes, circumstances)
        return self._local.with_start_loss(updates, plan, samples)

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,
        corrected: bool = False,
        aside: bool = False,
    ) -> Matrix:
        """Return the mean loss of models on clients' training samples; NaN for who has none or cannot be reached."""
        question = Question(clients=clients, blocks=blocks, models=models, held=held, aside=aside)
        return self._probing.losses(question, self._moment, corrected=corrected)

    def accuracies(
        self, clients: Counts, models: Models, *, blocks: Sequence[Counts] | None = None, held: Mask | None = None
    ) -> Matrix:
        """Return the share of clients' training samples that models get right; otherwise as :meth:`losses`."""
        question = Question(clients=clients, blocks=blocks, models=models, held=held)
        return self._probing.accuracies(question, self._moment)

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Return how many training samples clients have of some intervals; 0 for whoever cannot be reached."""
        return self._probing.sizes(Question(clients=clients, blocks=blocks), self._moment)

    def scores(self, models: Models, row: Counts) -> ClientScores:
        """Measure each client's model on the test samples of its window; what clients do to serve it is charged."""
        found = self._measuring.served(models, row, self._moment)
        if self._serving.has_own_work:  # nobody waits for it
            everyone, sizes = np.arange(self.windows.n_clients), self._moment.training.sizes
            costs = self._serving.own_costs(sizes, found.clients, batch_size=self._rule.batch_size)
            self._accounts.charge("probe", everyone, costs)
        return found

    def other_scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:
        """Measure each client's model on the newest samples, and on those that come next if they are new."""
        return self._measuring.served_elsewhere(models, row, self._moment)

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, or None if nobody knows."""
        return self.windows.concepts(self.round_index)

    def heterogeneity(self, membership: Membership) -> float | None:
        """Return the mean L1 distance of label histograms within clusters."""
        return self._measuring.heterogeneity(membership, self._moment)
