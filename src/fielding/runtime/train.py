"""Stage 10: the local steps of the jobs of a plan, from the choice of a model to what leaves the client."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fielding._typing import ClientId, Counts, Mask, Models, Vector
from fielding.client.privacy.training import PrivateTraining, draw_samples, pack_draws
from fielding.client.ranges import Ranges
from fielding.errors import InputError
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.models import finite_rows
from fielding.rng import Hashes, hashed
from fielding.runtime.memory import PreviousModels, Rehearsal
from fielding.runtime.store import SampleStore
from fielding.runtime.workers import Compute
from fielding.serving.correction import balancing_offsets
from fielding.training.batches import draw_positions
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LearningRate, LocalWork, PrivateSteps, Sgd, Trained

if TYPE_CHECKING:
    from fielding.client.privacy.geometric import RandomWords
    from fielding.client.privacy.ledger import PrivacyLedger

FromZero: TypeAlias = Annotated[float, Meta(ge=0)]
NoiseOf: TypeAlias = Callable[[int, int], "RandomWords"]
"""Returns the random words of a client, by position, in a round."""
Attack: TypeAlias = Callable[..., Models]
"""``attack(models, clients, offered=, start=)``: the models as they are uploaded, one row per job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRule:
    """The one rule of local work.

    Parameters
    ----------
    momentum, weight_decay, prox
        As in :class:`~fielding.training.trainer.Sgd`.
    moon, moon_temperature
        MOON: weight of the contrastive part of the loss, 0 for none, and its temperature; see
        :class:`~fielding.training.trainer.Contrast`.
    rehearsal
        CDA-FedAvg: whether clients watch for drift, and train on samples from before it, too; see
        :class:`~fielding.runtime.memory.Rehearsal`.
    balanced
        Whether the logarithm of a participant's label mix is added to the scores inside its loss, so that the model
        learns what does not depend on the mix (FedLC).
    private
        Noise on the gradients, and how often a client may train (DP-SGD); losses are then told as 0. None: none.
    """

    n_steps: Annotated[int, Meta(ge=0, lt=2**31)]
    batch_size: Annotated[int, Meta(ge=1, lt=2**31)]
    rate: LearningRate
    momentum: FromZero = 0.0
    weight_decay: FromZero = 0.0
    prox: float = 0.0
    moon: FromZero = 0.0
    moon_temperature: Annotated[float, Meta(gt=0)] = 0.5
    rehearsal: bool = False
    balanced: bool = False
    private: PrivateTraining | None = None

    def sgd(self, round_index: int) -> Sgd:
        """Return the rule of a step in a round."""
        return Sgd(
            learning_rate=self.rate.at(round_index),
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            prox=self.prox,
        )

    def steps(self, plan: TrainingPlan) -> Counts:
        """Return the local steps of each job of a plan, shape ``(n_jobs,)``."""
        n_steps = self.n_steps if plan.n_steps is None else plan.n_steps
        return np.broadcast_to(np.asarray(n_steps, dtype=np.int64), plan.clients.shape)


def is_choice(plan: TrainingPlan) -> bool:
    """Return whether the clients of a plan choose among several models."""
    return plan.chooses and plan.models.shape[0] > 1


def draw_batches(
    ranges: Ranges, which: Counts, *, keys: Hashes, moment: tuple[int, int], shape: tuple[int, int]
) -> Counts:
    """Return the rows of the mini-batches of a round, shape ``(n_participants, n_steps, batch_size)``.

    Keys, moment and shape as in :func:`~fielding.training.batches.draw_positions`; each range has at least one sample.
    """
    positions = draw_positions(ranges.sizes[which], keys=keys, moment=moment, shape=shape)
    return np.asarray(ranges.entries[ranges.start[which, np.newaxis, np.newaxis] + positions])


def sent_numbers(share: float, n_numbers: int, *, seed: int, round_index: int, key: Hashes) -> Mask:
    """Return which numbers of a model a client sends that sends a share of them in a round; the server draws alike.

    ``key``: the hash of the client's id, shape ``(1,)``.
    """
    if share >= 1.0:
        return np.ones(n_numbers, dtype=np.bool_)
    draw, numbers = hashed(seed, "send", round_index, key), np.arange(n_numbers, dtype=np.uint64)
    return np.asarray(hashed(0, "sent numbers", draw, numbers) < np.uint64(share * 2**64))


class LocalTraining:
    """Trains models on clients' samples; takes wall-clock time and charges nothing.

    ``attack``: what malicious clients make of the models that they upload; None: all are honest.

    ``previous_models`` is None without MOON, ``rehearsal`` without rehearsal. ``worked_s``: wall-clock seconds that
    local steps took since it was set to 0.

    Private training asks ``budget``, by the ids of clients, before anything is trained, and takes its randomness from
    ``noise_of``.
    """

    def __init__(
        self,
        store: SampleStore,
        compute: Compute,
        rule: LocalRule,
        *,
        attack: Attack | None = None,
        seed: int,
        keys: Hashes,
        budget: "tuple[PrivacyLedger, Sequence[ClientId]] | None" = None,
        noise_of: NoiseOf | None = None,
    ) -> None:
        self._store, self._compute, self.rule, self._attack = store, compute, rule, attack
        self._budget, self._noise_of = budget, noise_of
        if rule.private is not None and (budget is None or noise_of is None):
            raise RuntimeError("private training needs a ledger and a source of noise")
        self._seed, self._keys = seed, keys
        self.previous_models = PreviousModels() if rule.moon > 0.0 else None
        self.rehearsal = Rehearsal(store, seed=seed, keys=keys) if rule.rehearsal else None
        self.worked_s = 0.0

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what clients keep for themselves between rounds; nothing unless the rule asks for it."""
        kept = (one.arrays() for one in (self.previous_models, self.rehearsal) if one is not None)
        return {name: array for arrays in kept for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Give clients back what :meth:`arrays` gave."""
        for one in (self.previous_models, self.rehearsal):
            if one is not None:
                one.restore(arrays)

    def samples(
        self, clients: Counts, blocks: Sequence[Counts] | None, *, round_index: int, training: Ranges
    ) -> Ranges:
        """Return the samples of each job: those of the client's window, or of the intervals that are named."""
        if blocks is None:
            return training.some(clients)
        newest = self._store.n_complete(round_index) - 1
        if any(block.size and not 0 <= block.min() <= block.max() <= newest for block in blocks):
            raise InputError(f"a job names an interval that has not come; the newest is {newest}")
        return self._store.training_blocks(clients, blocks)

    def passes(self, plan: TrainingPlan, sizes: Counts, training: Ranges) -> Counts:
        """Return how many samples each job puts through a model beside its local steps, shape ``(n_jobs,)``.

        To choose a model or to tell the loss before training, a job looks at all its samples; MOON puts each batch
        through two models more; rehearsal looks at what is new, unless the job has just done so.
        """
        # The loss before training is known from the choice, where there was one.
        window_passes = plan.models.shape[0] if is_choice(plan) else int(plan.with_start_loss)
        passes = sizes * window_passes
        if self.previous_models is not None and not plan.is_probe:  # two models beside the one in training
            has_previous = self.previous_models.has(plan.clients)
            passes = passes + 2 * self.rule.batch_size * self.rule.steps(plan) * has_previous
        if self.rehearsal is not None and self._rehearses(plan) and not window_passes:
            passes = passes + self.rehearsal.passes(plan.clients, training)
        return passes

    def train(
        self, plan: TrainingPlan, jobs: Counts, samples: Ranges, *, round_index: int, training: Ranges
    ) -> Updates:
        """Do some jobs of a plan, by rising position, each with samples; the others leave no trace.

        Returns the models that are finite; the clients of the others are missing as ``"failed"``.
        """
        jobs, declined = self._granted(plan, jobs, round_index)
        clients, start = plan.clients[jobs], plan.start.copy()
        if is_choice(plan):
            losses = self.losses(samples.some(jobs), plan.models)
            start[jobs] = np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=1)
        start = start[jobs]
        at_hand = samples
        if self.rehearsal is not None and self._rehearses(plan):
            self.rehearsal.look(
                clients,
                start,
                plan.models,
                losses=lambda model, rows: self._compute.scores(model, rows, self._store.gather)[0],
                training=training,
            )
            at_hand = self.rehearsal.extend(plan.clients, samples)
        trained, n_samples = self._take_steps(plan, jobs, start, at_hand, round_index)
        models = self._upload(plan, jobs, start, trained.models, round_index)
        is_model = finite_rows(models) & np.isfinite(trained.loss)
        good = np.flatnonzero(is_model)
        return Updates(
            clients=clients[good],
            groups=plan.groups[jobs][good],
            start=start[good],
            models=models if good.size == jobs.size else models[good],
            n_samples=n_samples[good],
            loss=trained.loss[good],
            square_loss=trained.square_loss[good],
            metrics={name: values[good] for name, values in trained.metrics.items()},
            missing={"failed": clients[~is_model].tolist(), **({"refused": declined} if declined else {})},
            n_parameters=self._compute.layout.parameter_size,
            learning_rate=self.rule.rate.at(round_index),
            start_loss=self._start_losses(plan, jobs[good], start[good], samples) if plan.with_start_loss else None,
            round_index=round_index,
            interval=self._store.n_complete(round_index) - 1,
            jobs=jobs[good],
        )

    def _granted(self, plan: TrainingPlan, jobs: Counts, round_index: int) -> tuple[Counts, list[int]]:
        """Return which jobs may be done, and the clients that have no budget left; what is spent is on disk then."""
        if self.rule.private is None or self._budget is None or not jobs.size:
            return jobs, []
        if plan.is_probe or plan.chooses or (self.rule.steps(plan)[jobs] > self.rule.n_steps).any():
            raise InputError("private training is for plans of one training each, with as many steps as the rule says")
        ledger, ids = self._budget
        wanted = [(ids[client], round_index + 1) for client in plan.clients[jobs].tolist()]
        is_granted = np.array(ledger.spend(wanted, round_index), dtype=np.bool_)
        return jobs[is_granted], plan.clients[jobs[~is_granted]].tolist()

    def _rehearses(self, plan: TrainingPlan) -> bool:
        """Return whether rehearsal has a part in a plan: one that is learned from, and names no samples itself."""
        return self.rehearsal is not None and not plan.is_probe and plan.blocks is None

    def _take_steps(
        self, plan: TrainingPlan, jobs: Counts, start: Counts, samples: Ranges, round_index: int
    ) -> tuple[Trained, Counts]:
        """Return what jobs trained, and on how many samples each."""
        n_steps = self.rule.steps(plan)[jobs]
        begun = time.perf_counter()
        models = np.empty((jobs.size, plan.models.shape[1]), dtype=np.float32)
        losses, n_samples, metrics = np.empty((2, jobs.size)), samples.sizes[jobs], dict[str, Vector]()
        for count in np.unique(n_steps).tolist():
            alike = np.flatnonzero(n_steps == count)
            work = self._work(plan, jobs[alike], start[alike], samples, round_index, count)
            one = self._compute.train(work, samples.some(jobs[alike]))
            if one.n_samples is not None:
                n_samples[alike] = one.n_samples
            for name, values in one.metrics.items():
                metrics.setdefault(name, np.full(jobs.size, np.nan))[alike] = values
            if alike.size == jobs.size:
                models, losses = one.models, np.stack([one.loss, one.square_loss])
            else:
                models[alike], losses[:, alike] = one.models, [one.loss, one.square_loss]
        if self.previous_models is not None and not plan.is_probe:
            self.previous_models.keep(plan.clients[jobs], models)
        self.worked_s += time.perf_counter() - begun
        if self.rule.private is not None:  # losses carry no noise, so they are not told
            losses = np.where(np.isfinite(losses), 0.0, losses)
        return Trained(models=models, loss=losses[0], square_loss=losses[1], metrics=metrics), n_samples

    def _work(
        self, plan: TrainingPlan, jobs: Counts, start: Counts, samples: Ranges, round_index: int, n_steps: int
    ) -> LocalWork:
        """Return the work of jobs that do the same number of steps."""
        clients, rule = plan.clients[jobs], self.rule
        rates, offsets, mixes, contrast = plan.rate_factors, None, None, None
        if rates is not None:
            rates = rates[start if plan.chooses else jobs]
        keeps_mixes = LABEL_MIX in self._compute.layout.names
        if rule.balanced or keeps_mixes:
            shares = self._store.histograms(samples, jobs)
            offsets = balancing_offsets(shares, samples.sizes[jobs]) if rule.balanced else None
            mixes = shares.astype(np.float32) if keeps_mixes else None
        if self.previous_models is not None and not plan.is_probe:
            previous, has_previous = self.previous_models.of(clients, plan.models.shape[1])
            contrast = Contrast(
                mu=rule.moon, temperature=rule.moon_temperature, previous=previous, has_previous=has_previous
            )
        private = None
        if rule.private is None or self._noise_of is None:
            shape, moment = (n_steps, rule.batch_size), (self._seed, round_index)
            draws = draw_batches(samples, jobs, keys=self._keys[clients], moment=moment, shape=shape)
        else:
            draws, private = self._private_steps(rule.private, samples, jobs, clients, round_index, n_steps)
        return LocalWork(
            models=plan.models,
            start=start,
            draws=draws,
            private=private,
            gather=self._store.gather,
            sgd=rule.sgd(round_index),
            rate_factors=rates,
            pull=None if plan.pull is None else plan.pull.of(jobs),
            contrast=contrast,
            offsets=offsets,
            mixes=mixes,
            round_index=round_index,
        )

    def _private_steps(
        self, rule: PrivateTraining, samples: Ranges, jobs: Counts, clients: Counts, round_index: int, n_steps: int
    ) -> tuple[Counts, PrivateSteps]:
        """Return the samples of each step, drawn one by one, and the noise; the server could know neither."""
        from fielding.client.privacy.gaussian import draw_normals  # most devices need none of it

        if self._noise_of is None:
            raise RuntimeError("private training needs a source of noise")
        words = [self._noise_of(client, round_index) for client in clients.tolist()]
        own = [samples.of(jobs[at : at + 1])[0] for at in range(jobs.size)]
        # A store may show a sample longer than the rule knows: at the end of a trace, or while its clock stands still.
        is_recent = [self._store.rounds(rows) > round_index - rule.window for rows in own]
        drawn = [
            draw_samples(rows.size, rule.rate, n_steps=n_steps, words=source) & recent
            for rows, source, recent in zip(own, words, is_recent, strict=True)
        ]
        draws, is_drawn = pack_draws(drawn, own)
        return draws, PrivateSteps(
            is_drawn=is_drawn,
            clip=rule.clip,
            noise=rule.noise,
            batch=np.array([rule.rate * max(1, int(recent.sum())) for recent in is_recent]),
            normals=[partial(draw_normals, words=source) for source in words],
        )

    def _upload(self, plan: TrainingPlan, jobs: Counts, start: Counts, models: Models, round_index: int) -> Models:
        """Return what leaves the clients of the models that they trained: all numbers, a share, or an attack."""
        clients = plan.clients[jobs]
        if plan.upload_shares is not None:
            models, shares = models.copy(), plan.upload_shares[jobs]
            for row in np.flatnonzero(shares < 1.0).tolist():
                key = self._keys[clients[row : row + 1]]
                is_sent = sent_numbers(shares[row], models.shape[1], seed=self._seed, round_index=round_index, key=key)
                models[row] = np.where(is_sent, models[row], plan.models[start[row]])
        if self._attack is None:
            return models
        uploads = self._attack(models, clients, offered=plan.models, start=start)
        if plan.uploads is not None:  # what is not sent cannot be spoiled on the way
            uploads = np.where((plan.uploads[jobs] > 0.0)[:, np.newaxis], uploads, models)
        return uploads

    def _start_losses(
        self, plan: TrainingPlan, jobs: Counts, start: Counts, samples: Ranges
    ) -> npt.NDArray[np.float64]:
        """Return how well the models that training started from served each job's samples."""
        losses, own_samples = np.empty(jobs.size), samples.some(jobs)
        for row in np.unique(start).tolist():
            own = np.flatnonzero(start == row)
            losses[own] = self._compute.measure(plan.models[row], *own_samples.of(own), self._store.gather)[2]
        return losses

    def losses(self, samples: Ranges, models: Models) -> npt.NDArray[np.float64]:
        """Return the mean loss of each model on each range of samples, NaN without samples; model by model."""
        return self._measure(samples, models, 2)

    def accuracies(self, samples: Ranges, models: Models) -> npt.NDArray[np.float64]:
        """Return the share of each range of samples that each model gets right; otherwise as :meth:`losses`."""
        return self._measure(samples, models, 1)

    def _measure(self, samples: Ranges, models: Models, column: int) -> npt.NDArray[np.float64]:
        rows, sizes = samples.of(np.arange(samples.start.size))
        found = np.empty((sizes.size, models.shape[0]))
        for at, model in enumerate(models):
            measured = self._compute.measure(model, rows, sizes, self._store.gather)
            if column == 1:
                n_tested, correct = measured[0], measured[1]
                found[:, at] = np.divide(correct, n_tested, out=np.full(sizes.size, np.nan), where=n_tested > 0)
            else:
                found[:, at] = measured[2]
        return found
