"""What clients compute and keep: the local steps of the jobs of a plan, and how well models serve their samples."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Matrix, Models
from fielding.errors import InputError
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.ledger import Costs
from fielding.rng import Hashes
from fielding.serving.correction import balancing_offsets
from fielding.simulation.answers import Circumstances, Settled
from fielding.simulation.batches import drawn_batches
from fielding.simulation.keepsakes import Keepsakes
from fielding.simulation.rehearsal import Rehearsal
from fielding.simulation.segments import segment_means
from fielding.simulation.settings import LocalRule
from fielding.simulation.task_costs import job_costs, window_passes
from fielding.simulation.workers import Workers
from fielding.traces.sliding import Ranges, SlidingWindows
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LocalWork, Scores, Trained


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """When something is computed.

    Parameters
    ----------
    round_index
        The round.
    training
        The training windows in it.
    """

    round_index: int
    training: Ranges


class LocalTraining:
    """Trains and scores models on clients' samples; takes wall-clock time and charges nothing.

    Parameters
    ----------
    windows
        What clients see when.
    workers
        Who computes.
    rule
        How long and how fast clients train.
    seed, keys
        Seed of all draws, and the hash of each client's id.

    Attributes
    ----------
    keepsakes
        The models that clients trained last; None without MOON.
    rehearsal
        Their detectors and long-term memories; None without rehearsal.
    worked_s
        Wall-clock seconds that local steps took since somebody set it to 0.
    """

    def __init__(self, windows: SlidingWindows, workers: Workers, rule: LocalRule, *, seed: int, keys: Hashes) -> None:
        self._windows, self._workers, self._rule = windows, workers, rule
        self._seed, self._keys = seed, keys
        self.keepsakes = Keepsakes() if rule.moon > 0.0 else None
        self.rehearsal = Rehearsal(windows, seed=seed, keys=keys) if rule.rehearsal else None
        self._keeps_mixes = LABEL_MIX in workers.layout.names
        self.worked_s = 0.0

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what clients keep for themselves between rounds; nothing unless the rule asks for it."""
        kept = (one.arrays() for one in (self.keepsakes, self.rehearsal) if one is not None)
        return {name: array for arrays in kept for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Give clients back what :meth:`arrays` gave."""
        for one in (self.keepsakes, self.rehearsal):
            if one is not None:
                one.restore(arrays)

    def samples(self, moment: Moment, clients: Counts, blocks: Sequence[Counts] | None) -> Ranges:
        """Return the samples of each job: those of the client's window, or of the intervals that are named."""
        if blocks is None:
            return moment.training.some(clients)
        newest = self._windows.n_complete(moment.round_index) - 1
        if any(block.size and not 0 <= block.min() <= block.max() <= newest for block in blocks):
            raise InputError(f"a job names an interval that has not come; the newest is {newest}")
        return self._windows.training_blocks(clients, blocks)

    def has_new(self, moment: Moment) -> Mask:
        """Return who received training samples in a round, shape ``(n_clients,)``; at first in the newest interval."""
        windows, stop = self._windows, self._windows.n_complete(moment.round_index)
        first = windows.n_complete(moment.round_index - 1) if moment.round_index else stop - 1
        blocks = [np.arange(first, stop)] * windows.n_clients
        return windows.training_blocks(np.arange(windows.n_clients), blocks).sizes > 0

    def steps(self, plan: TrainingPlan) -> Counts:
        """Return the local steps of each job of a plan."""
        n_steps = self._rule.n_steps if plan.n_steps is None else plan.n_steps
        return np.broadcast_to(np.asarray(n_steps, dtype=np.int64), plan.clients.shape)

    def costs(self, plan: TrainingPlan, sizes: Counts, round_index: int) -> Costs:
        """Return what each job of a plan, with so many samples at hand, costs its client in a round."""
        return job_costs(
            plan,
            n_steps=self.steps(plan),
            batch_size=self._rule.batch_size,
            sizes=sizes,
            more_passes=self._more_passes(plan, round_index),
        )

    def _more_passes(self, plan: TrainingPlan, round_index: int) -> int | Counts:
        """Return how many samples each job puts through a model for what its client keeps: MOON and rehearsal."""
        passes: int | Counts = 0
        if self.keepsakes is not None and not plan.is_probe:  # two models beside the one in training
            passes = 2 * self._rule.batch_size * self.steps(plan) * self.keepsakes.has(plan.clients)
        rehearsal = self._rehearsal_in(plan)
        if rehearsal is not None and not window_passes(plan):
            passes = passes + rehearsal.passes(plan.clients, round_index)
        return passes

    def chosen(self, plan: TrainingPlan, kept: Counts, samples: Ranges) -> Counts:
        """Return the model that each job starts from; those whose answers count choose, if the plan lets them."""
        if not plan.chooses or plan.models.shape[0] == 1:
            return plan.start
        start, losses = plan.start.copy(), self.losses(samples.some(kept), plan.models)
        start[kept] = np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=1)
        return start

    def at_hand(self, settled: Settled, samples: Ranges, round_index: int) -> Ranges:
        """Let those whose answers count look at what is new to them, and return what each job of a plan trains on.

        Parameters
        ----------
        settled
            The plan, and whose answers count.
        samples
            The samples that the plan names for each job.
        round_index
            The round.

        Returns
        -------
        The same samples; with rehearsal also those that the client remembers.
        """
        plan, kept = settled.plan, settled.kept
        rehearsal = self._rehearsal_in(plan)
        if rehearsal is None:
            return samples
        jobs = (plan.clients[kept], settled.start[kept])
        rehearsal.look(jobs, plan.models, score=self.score, round_index=round_index)
        return rehearsal.extended(plan.clients, samples)

    def _rehearsal_in(self, plan: TrainingPlan) -> Rehearsal | None:
        """Return the rehearsal if it has a part in a plan: one that is learned from, and names no samples itself."""
        return None if plan.is_probe or plan.blocks is not None else self.rehearsal

    def train(self, settled: Settled, samples: Ranges, round_index: int) -> Trained:
        """Do the local steps of the jobs whose answers count; the others leave no trace.

        Parameters
        ----------
        settled
            The plan, and whose answers count.
        samples
            What each job of the plan trains on.
        round_index
            The round.
        """
        plan, jobs = settled.plan, settled.kept
        n_steps = self.steps(plan)[jobs]
        begun = time.perf_counter()
        models = np.empty((jobs.size, plan.models.shape[1]), dtype=np.float32)
        losses = np.empty((2, jobs.size))
        for count in np.unique(n_steps).tolist():
            alike = np.flatnonzero(n_steps == count)
            one = self._workers.train(self._work(settled, samples, alike, (round_index, count)))
            if alike.size == jobs.size:
                models, losses = one.models, np.stack([one.loss, one.square_loss])
            else:
                models[alike], losses[:, alike] = one.models, [one.loss, one.square_loss]
        if self.keepsakes is not None and not plan.is_probe:
            self.keepsakes.keep(plan.clients[jobs], models)
        self.worked_s += time.perf_counter() - begun
        return Trained(models=models, loss=losses[0], square_loss=losses[1])

    def _work(self, settled: Settled, samples: Ranges, alike: Counts, count: tuple[int, int]) -> LocalWork:
        """Return the work of those of the jobs that do the same number of steps; ``count``: of the round, and steps."""
        plan, done, (round_index, n_steps) = settled.plan, settled.kept[alike], count
        rates = plan.rate_factors
        if rates is not None:
            rates = rates[settled.start[done] if plan.chooses else done]
        draws = drawn_batches(
            samples,
            done,
            keys=self._keys[plan.clients[done]],
            moment=(self._seed, round_index),
            shape=(n_steps, self._rule.batch_size),
        )
        offsets, mixes = self._label_terms(samples, done)
        return LocalWork(
            models=plan.models,
            start=settled.start[done],
            draws=draws,
            gather=self._windows.gather,
            sgd=self._rule.sgd(round_index),
            rate_factors=rates,
            pull=None if plan.pull is None else plan.pull.of(done),
            contrast=None if plan.is_probe else self._contrast(plan, plan.clients[done]),
            offsets=offsets,
            mixes=mixes,
        )

    def _label_terms(self, samples: Ranges, jobs: Counts) -> tuple[Scores | None, Scores | None]:
        """Return what the labels of jobs' samples change: scores inside the loss, and the mix that a model carries."""
        if not (self._rule.balanced or self._keeps_mixes):
            return None, None
        mixes = self._windows.histograms(samples, jobs)
        offsets = balancing_offsets(mixes, samples.sizes[jobs]) if self._rule.balanced else None
        return offsets, mixes.astype(np.float32) if self._keeps_mixes else None

    def _contrast(self, plan: TrainingPlan, clients: Counts) -> Contrast | None:
        """Return the contrast with what clients trained last."""
        if self.keepsakes is None:
            return None
        previous, has_previous = self.keepsakes.of(clients, plan.models.shape[1])
        return Contrast(
            mu=self._rule.moon,
            temperature=self._rule.moon_temperature,
            previous=previous,
            has_previous=has_previous,
        )

    def losses(self, samples: Ranges, models: Models) -> Matrix:
        """Return the mean loss of each model on each job's samples, NaN without samples; model by model."""
        return self._measured(samples, models, column=0)

    def accuracies(self, samples: Ranges, models: Models) -> Matrix:
        """Return the share of each job's samples that each model gets right; otherwise as :meth:`losses`."""
        return self._measured(samples, models, column=1)

    def circumstances(self, round_index: int, interval: int) -> Circumstances:
        """Return what all answers of a round share; ``interval``: the newest of data."""
        return Circumstances(
            n_parameters=self._workers.layout.parameter_size,
            learning_rate=self._rule.rate.at(round_index),
            round_index=round_index,
            interval=interval,
        )

    def with_start_loss(self, updates: Updates, plan: TrainingPlan, samples: Ranges) -> Updates:
        """Return answers to a plan with how well the models they started from served each job's samples, if it asks."""
        if not plan.with_start_loss:
            return updates
        losses, own_samples = np.empty(updates.start.size), samples.some(updates.jobs)
        for row in np.unique(updates.start).tolist():
            own = np.flatnonzero(updates.start == row)
            rows, sizes = own_samples.of(own)
            losses[own] = segment_means(self.score(plan.models[row], rows)[0], sizes)
        return replace(updates, start_loss=losses)

    def _measured(self, samples: Ranges, models: Models, *, column: int) -> Matrix:
        rows, sizes = samples.of(np.arange(samples.start.size))
        measured = np.empty((sizes.size, models.shape[0]))
        for at, model in enumerate(models):
            measured[:, at] = segment_means(self.score(model, rows)[column].astype(np.float32), sizes)
        return measured

    def score(self, model: Models, rows: Counts) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return loss and correctness of schedule rows under a model."""
        return self._workers.scores(model, rows, self._windows.gather)
