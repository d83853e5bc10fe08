"""The door, in process: clients that train on this machine while a clock says how long it would take on theirs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Mask, Matrix, Models, Vector
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.errors import InputError
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Costs, Ledger
from fielding.rng import Hashes, client_key, hashed
from fielding.simulation.batches import drawn_batches
from fielding.simulation.clock import Clock, RoundOutcome, invited_count, seconds_of, settle_round
from fielding.simulation.observers import Observer
from fielding.simulation.scoring import scored_clients
from fielding.simulation.segments import segment_means
from fielding.simulation.settings import Hardware, LocalRule
from fielding.simulation.workers import Workers
from fielding.traces.sliding import Ranges, SlidingWindows
from fielding.training.trainer import LocalWork, Trained, Trainer

IDLE_S = 60.0
"""Simulated seconds that a round waits in which nobody can be asked."""
BYTES_PER_NUMBER = 4
"""Models and reports travel as float32."""


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
    seed, n_workers
        Seed of all draws, and how many threads may train; the latter changes nothing but the time it takes.
    """

    def __init__(  # noqa: PLR0913 - the one place where all parts of a simulation meet
        self,
        windows: SlidingWindows,
        observer: Observer | None,
        trainer: Trainer,
        *,
        rule: LocalRule,
        hardware: Hardware,
        seed: int,
        n_workers: int = 1,
    ) -> None:
        self.windows, self.trainer = windows, trainer
        self.ledger = Ledger(windows.n_clients)
        self.round_costs: dict[str, float] = {}
        self._clock = Clock()
        self._observer, self._rule, self._hardware, self._seed = observer, rule, hardware, seed
        self._workers = Workers(trainer, n_workers)
        self._keys = np.array([client_key(one) for one in windows.schedule.client_ids], dtype=np.uint64)
        self._passes: Counts = np.empty(0, dtype=np.int64)
        self.worked_s = 0.0
        self._position = {client_id: at for at, client_id in enumerate(windows.schedule.client_ids)}
        self._round = -1
        self._training: Ranges = windows.training(0)

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
        return self._clock.now_s

    # ---- a round begins ----------------------------------------------------------------------------------------

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive and windows slide, and return the reports of the clients that can be reached.

        Rounds come one after the other, from 0. Whoever is offline reports as soon as it is back.
        """
        if round_index != self._round + 1:
            raise InputError(f"round {round_index} cannot follow round {self._round}; go round by round")
        self._round = round_index
        self._training = self.windows.training(round_index)
        self.worked_s = 0.0
        self.round_costs = dict.fromkeys(("bytes_down", "bytes_up", "client_seconds"), 0)
        if self._observer is None:
            return NO_REPORTS
        reports = self._observer.observe(round_index)
        online = self._hardware.availability.available(reports.clients, self.now_s)
        if not online.all():
            self._observer.hold(reports.clients[~online])
        self._passes = self._observer.passes * reports.n_samples[online]
        return ReportBatch(
            client_ids=[self.client_ids[client] for client in reports.clients[online].tolist()],
            representations=reports.representations[online],
        )

    def charge_reports(self, reports: ReportBatch) -> None:
        """Charge the reports of this round's begin to whoever sent them; the round waits for the slowest."""
        if len(reports.client_ids):
            clients = np.array([self._position[client_id] for client_id in reports.client_ids], dtype=np.int64)
            n_bytes = BYTES_PER_NUMBER * reports.representations.shape[1]
            costs = Costs(up_bytes=n_bytes, forward_samples=self._passes)
            seconds = seconds_of(self._hardware.devices, clients, costs)
            self._charge("report", clients, costs, seconds)
            self._clock.advance(float(seconds.max()))

    def return_to(self, round_index: int, times: Sequence[float], *, ledger: Ledger) -> ReportBatch:
        """Come back to the end of a round that was done before, without training again.

        Parameters
        ----------
        round_index
            The last round that is done.
        times
            Simulated time at the start of each round up to it, and at its end.
        ledger
            What was charged by then.

        Returns
        -------
        The reports that were sent in that round.
        """
        sent = NO_REPORTS
        for done in range(round_index + 1):
            self._clock = Clock(times[done])
            sent = self.begin(done)
        self._clock, self.ledger = Clock(times[round_index + 1]), ledger
        return sent

    # ---- what the door offers ----------------------------------------------------------------------------------

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client that depends on seed, round and its id alone."""
        return hashed(self._seed, purpose, self._round, self._keys[clients])

    def has_data(self) -> Mask:
        """Return who has something to train on, shape ``(n_clients,)``."""
        return np.asarray(self._training.sizes > 0)

    def askable(self) -> Mask:
        """Return who has data and can be reached now, shape ``(n_clients,)``."""
        everyone = np.arange(self.windows.n_clients)
        return self.has_data() & self._hardware.availability.available(everyone, self.now_s)

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        return invited_count(wanted, self._hardware.overcommit, available)

    def train(self, plan: TrainingPlan) -> Updates:
        """Find out who answers in time, let those train, charge everyone who was asked, and let time pass."""
        n_steps = self._rule.n_steps if plan.n_steps is None else plan.n_steps
        costs = Costs(
            down_bytes=self._model_bytes,
            up_bytes=self._model_bytes,
            train_samples=n_steps * self._rule.batch_size,
        )
        if plan.with_start_loss:
            sizes = self._training.sizes[plan.clients]
            costs = replace(costs, up_bytes=self._model_bytes + BYTES_PER_NUMBER, forward_samples=sizes)
        seconds = seconds_of(self._hardware.devices, plan.clients, costs)
        finishes_online = self._hardware.availability.available(plan.clients, self.now_s + seconds)
        outcome = settle_round(plan.groups, seconds, wanted=plan.wanted, finishes_online=finishes_online)
        self._charge("probe" if plan.is_probe else "model", plan.clients, outcome.spent(costs), seconds)
        # Without tasks no time would pass, and whoever is offline now would be so for ever.
        self._clock.advance(outcome.duration_s if plan.clients.size or plan.is_probe else IDLE_S)
        kept = np.flatnonzero(outcome.kept)
        return self._updates(plan, outcome, kept, self._trained(plan, kept, n_steps))

    def losses(self, clients: Counts, models: Models) -> Matrix:
        """Return the mean loss of models on clients' training windows; every client downloads every model.

        NaN for whoever has no data or cannot be reached.
        """
        reached = np.flatnonzero(self.askable()[clients])
        asked, losses = clients[reached], np.full((clients.size, models.shape[0]), np.nan)
        rows, sizes = self._training.of(asked)
        costs = Costs(
            down_bytes=self._model_bytes * models.shape[0],
            up_bytes=BYTES_PER_NUMBER * models.shape[0],
            forward_samples=sizes * models.shape[0],
        )
        seconds = seconds_of(self._hardware.devices, asked, costs)
        self._charge("probe", asked, costs, seconds)
        self._clock.advance(float(seconds.max(initial=0.0)))
        for at, model in enumerate(models):
            losses[reached, at] = segment_means(self._score(model, rows)[0], sizes)
        return losses

    def scores(self, models: Models, row: Counts) -> ClientScores:
        """Measure each client's model on the test samples of its window."""
        return self._scored(models, row, self.windows.testing(self._round))

    def prequential_scores(self, models: Models, row: Counts) -> ClientScores | None:
        """Measure each client's model on the samples that come next, before anybody trains on them; natural traces."""
        if self.windows.schedule.concepts is not None:
            return None
        return self._scored(models, row, self.windows.upcoming(self._round))

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, or None if nobody knows."""
        return self.windows.concepts(self._round)

    # ---- how it is done ----------------------------------------------------------------------------------------

    @property
    def _model_bytes(self) -> int:
        return BYTES_PER_NUMBER * self.trainer.layout.size

    def _charge(self, category: str, clients: Counts, costs: Costs, seconds: Vector) -> None:
        """Charge tasks to clients, and remember what this round cost."""
        self.ledger.charge(category, clients, down_bytes=costs.down_bytes, up_bytes=costs.up_bytes, seconds=seconds)
        amounts = (costs.down_bytes, costs.up_bytes, seconds)
        for name, amount in zip(self.round_costs, amounts, strict=True):
            self.round_costs[name] += np.broadcast_to(amount, clients.shape).sum().item()

    def _trained(self, plan: TrainingPlan, kept: Counts, n_steps: int) -> Trained:
        clients = plan.clients[kept]
        draws = drawn_batches(
            self._training,
            clients,
            keys=self._keys[clients],
            moment=(self._seed, self._round),
            shape=(n_steps, self._rule.batch_size),
        )
        work = LocalWork(
            models=plan.models,
            start=plan.start[kept],
            draws=draws,
            gather=self.windows.gather,
            sgd=self._rule.sgd(self._round),
        )
        begun = time.perf_counter()
        trained = self._workers.train(work)
        self.worked_s += time.perf_counter() - begun
        return trained

    def _updates(self, plan: TrainingPlan, outcome: RoundOutcome, kept: Counts, trained: Trained) -> Updates:
        """Return the answers that are models, and who is missing why."""
        # One number tells whether all are finite; a model that is not must never reach an average.
        is_finite = np.isfinite(trained.models.sum(axis=1, dtype=np.float64)) & np.isfinite(trained.loss)
        good, clients = np.flatnonzero(is_finite), plan.clients[kept]
        reasons = outcome.reasons
        names: tuple[Reason, ...] = ("straggler", "offline")
        missing = {name: plan.clients[reasons == name].tolist() for name in names}
        return Updates(
            clients=clients[good],
            groups=plan.groups[kept][good],
            models=trained.models if good.size == kept.size else trained.models[good],
            n_samples=self._training.sizes[clients[good]],
            loss=trained.loss[good],
            square_loss=trained.square_loss[good],
            missing={**missing, "failed": clients[~is_finite].tolist()},
            duration_s=outcome.duration_s,
            n_parameters=self.trainer.layout.parameter_size,
            learning_rate=self._rule.rate.at(self._round),
            start_loss=self._start_losses(plan, kept[good]) if plan.with_start_loss else None,
        )

    def _start_losses(self, plan: TrainingPlan, kept: Counts) -> Vector:
        """Return how well the model that each participant started from served all of its samples."""
        losses = np.empty(kept.size)
        for start in np.unique(plan.start[kept]).tolist():
            own = plan.start[kept] == start
            rows, sizes = self._training.of(plan.clients[kept[own]])
            losses[own] = segment_means(self._score(plan.models[start], rows)[0], sizes)
        return losses

    def _scored(self, models: Models, row: Counts, ranges: Ranges) -> ClientScores:
        return scored_clients(
            models, row, ranges=ranges, tested=np.flatnonzero((ranges.sizes > 0) & self.has_data()), score=self._score
        )

    def _score(self, model: Models, rows: Counts) -> tuple[npt.NDArray[np.float32], Mask]:
        return self._workers.scores(model, rows, self.windows.gather)
