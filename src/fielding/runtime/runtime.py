"""The client side of a federation for N clients at a time: observe, train, probe, test, serve."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Mask, Matrix, Models, Vector
from fielding.client.ranges import Ranges
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.rng import Hashes
from fielding.runtime.experts import ServedExperts
from fielding.runtime.own_code import Metric, OwnCompute
from fielding.runtime.serve import LabelCorrection, ServedModels, Serving
from fielding.runtime.store import SampleStore
from fielding.runtime.test import LocalTest
from fielding.runtime.train import Attack, LocalRule, LocalTraining, NoiseOf
from fielding.runtime.workers import Compute

if TYPE_CHECKING:
    from fielding.client.privacy.ledger import PrivacyLedger


class ClientRuntime:
    """What clients compute on their samples, at one round at a time; it charges nothing and knows no clock.

    Clients are known by their position in the store. The simulator is a runtime of N clients with a clock and a ledger
    beside it, a Flower device one of a single client with files.

    Draws depend on ``seed``, round and ``keys`` (the hash of each client's id) alone. ``round_index`` is the round in
    hand, ``training`` the training windows of all clients in it. ``budget``, ``noise_of``: for private training, see
    :class:`LocalTraining`.
    """

    def __init__(
        self,
        store: SampleStore,
        compute: Compute,
        rule: LocalRule,
        *,
        serving: Serving | None = None,
        attack: Attack | None = None,
        has_heads: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        seed: int,
        keys: Hashes,
        budget: "tuple[PrivacyLedger, Sequence[ClientId]] | None" = None,
        noise_of: NoiseOf | None = None,
    ) -> None:
        self.store, self.compute, self.rule, self.serving = store, compute, rule, serving or Serving()
        self.local = LocalTraining(
            store, compute, rule, attack=attack, seed=seed, keys=keys, budget=budget, noise_of=noise_of
        )
        self._correction = LabelCorrection(store, compute, self.serving) if self.serving.is_corrected else None
        tuning = replace(rule, n_steps=self.serving.fine_tune) if self.serving.fine_tune else None
        self._test = LocalTest(
            store, compute, correction=self._correction, tuning=tuning, metrics=metrics, seed=seed, keys=keys
        )
        self._metrics = metrics or {}
        self._served = ServedModels(store, compute, self._correction)
        self.experts = (
            ServedExperts(store, compute, self.serving, has_heads=has_heads) if self.serving.experts else None
        )
        self.round_index, self.training = -1, store.training(0)

    def begin(self, round_index: int) -> None:
        """Let windows slide to a round; experts predict the samples that come with it first."""
        if self.experts is not None:
            self.experts.looked[:] = 0
        if self.experts is not None and round_index and (known := self._served.known) is not None:
            before, now = self.store.n_complete(round_index - 1), self.store.n_complete(round_index)
            if now > before:
                everyone = np.arange(self.store.n_clients)
                arrived = self.store.training_blocks(everyone, [np.arange(before, now)] * everyone.size)
                self.experts.learn(*known, arrived, self.training)
        windows = self.store.training(round_index)
        if self.experts is not None and round_index > self.round_index >= 0:
            self.experts.keep(self.training, windows)
        self.round_index, self.training = round_index, windows
        if isinstance(self.compute, OwnCompute):
            self.compute.round_index = round_index
        self.local.worked_s = 0.0

    # ---- train ---------------------------------------------------------------------------------------------------

    def samples(self, clients: Counts, blocks: Sequence[Counts] | None) -> Ranges:
        """Return the training samples of each job or question: of its client's window, or of the intervals named."""
        return self.local.samples(clients, blocks, round_index=self.round_index, training=self.training)

    def passes(self, plan: TrainingPlan, sizes: Counts) -> Counts:
        """Return how many samples each job of a plan puts through a model beside its local steps."""
        return self.local.passes(plan, sizes, self.training)

    def train(self, plan: TrainingPlan, jobs: Counts | None = None, samples: Ranges | None = None) -> Updates:
        """Do jobs of a plan, all by default, and return the models that are finite; see :meth:`LocalTraining.train`."""
        samples = self.samples(plan.clients, plan.blocks) if samples is None else samples
        jobs = np.flatnonzero(samples.sizes > 0) if jobs is None else jobs
        updates = self.local.train(plan, jobs, samples, round_index=self.round_index, training=self.training)
        if self.experts is None or plan.is_probe:
            return updates
        losses, names = self.experts.losses[updates.clients], self.experts.told_names
        return replace(updates, expert_losses=losses, expert_names=names)

    def has_new(self) -> Mask:
        """Return which clients received training samples in this round; in the first, in the newest interval."""
        stop = self.store.n_complete(self.round_index)
        first = self.store.n_complete(self.round_index - 1) if self.round_index else stop - 1
        everyone = np.arange(self.store.n_clients)
        return self.store.training_blocks(everyone, [np.arange(first, stop)] * everyone.size).sizes > 0

    # ---- probe ---------------------------------------------------------------------------------------------------

    def losses(self, clients: Counts, models: Models, samples: Ranges, *, corrected: bool = False) -> Matrix:
        """Return the mean loss of models on each question's samples, ``(n_questions, n_models)``; NaN without."""
        if corrected and self._correction is not None:
            return self._correction.losses(samples, models, clients=clients, training=self.training)
        return self.local.losses(samples, models)

    def accuracies(self, models: Models, samples: Ranges) -> Matrix:
        """Return the share of the samples of each question that models get right; otherwise as :meth:`losses`."""
        return self.local.accuracies(samples, models)

    # ---- test and serve ------------------------------------------------------------------------------------------

    def test(
        self,
        models: Models,
        row: Counts,
        others: Mapping[str, Ranges] | None = None,
        *,
        clients: Counts | None = None,
    ) -> dict[str, ClientScores]:
        """Score each client's model on the test samples of its window, by the name ``window``, and on ``others``.

        ``clients``: those that are tested; None: all.
        """
        samples = {"window": self.store.testing(self.round_index), **(others or {})}
        if clients is not None:
            is_tested = np.zeros(self.store.n_clients, dtype=np.bool_)
            is_tested[clients] = True
            samples = {name: one.only(is_tested) for name, one in samples.items()}
        found = self._test.test(models, row, samples, round_index=self.round_index, training=self.training)
        if self.experts is None:
            return found
        served = self.experts.test(models, row, samples, self.training, self._metrics)
        return {name: replace(one, also={**one.also, "served": served[name]}) for name, one in found.items()}

    def serve(self, models: Models, row: Counts) -> None:
        """Hand out the models that serve clients: of these, the row of each client."""
        self._served.serve(models, row)

    def shares(self, models: Models, row: Counts, asked: Ranges) -> Matrix:
        """Return the shares of classes that a client which is alone here is served for samples like its window's.

        As :meth:`test` scores it: by its experts, corrected, or by the model as it is; shape ``(n_asked, n_classes)``.
        Without samples to train on it is the model as it is.
        """
        has_window = bool(self.training.sizes[0])
        if self.experts is not None and has_window:
            return np.asarray(self.experts.shares(models, row, asked, self.training))
        rows, _ = asked.of(np.zeros(1, dtype=np.int64))
        scores, _ = self.compute.class_scores(models[int(row[0])], rows, self.store.gather)
        if self._correction is not None and has_window:
            scores = scores + self._correction.offsets(
                models, row, clients=np.zeros(1, dtype=np.int64), training=self.training
            )
        raised = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def errors(self, rows: Counts) -> Vector:
        """Return 1 where the model that serves a client errs on a row, 0 where not, NaN while no model serves."""
        return self._served.errors(rows, self.training)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what clients keep for themselves between rounds."""
        return {**self.local.arrays(), **(self.experts.arrays() if self.experts is not None else {})}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Give clients back what :meth:`arrays` gave."""
        self.local.restore(arrays)
        if self.experts is not None:
            self.experts.restore(arrays)
