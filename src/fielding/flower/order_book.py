"""How the orders of a run are worded: what a plan asks of a client, as the client is told."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import ClientId, Models
from fielding.errors import InputError
from fielding.federation.clients import TrainingPlan
from fielding.flower.local_jobs import JobSettings
from fielding.flower.orders import DescribeOrder, EvaluateOrder, TrainOrder
from fielding.training.layout import Layout
from fielding.training.rates import LearningRate


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
    n_steps
        Local steps, where a plan does not say.
    rate
        Learning rate by round.
    settings
        The rule of a local step; the client and the rate are filled in.
    """

    run_id: str
    layout: Layout
    seed: int
    n_steps: int
    rate: LearningRate
    settings: JobSettings

    def train(self, plan: TrainingPlan, job: int, *, client: ClientId, round_index: int, confirmed: int) -> TrainOrder:
        """Return the order of a job."""
        n_steps = self.n_steps if plan.n_steps is None else plan.n_steps
        factor = 1.0 if plan.rate_factors is None else float(plan.rate_factors[job])
        settings = replace(self.settings, client=client, learning_rate=self.rate.at(round_index), rate_factor=factor)
        return TrainOrder(
            run_id=self.run_id,
            round_index=round_index,
            model=plan.models[int(plan.start[job])],
            layout=self.layout,
            settings=settings.record(),
            n_steps=int(np.broadcast_to(n_steps, plan.clients.shape)[job]),
            seed=self.seed,
            confirmed=confirmed,
            with_start_loss=plan.with_start_loss,
        )

    def describe(self, round_index: int, *, confirmed: int) -> DescribeOrder:
        """Return the order to say what is new."""
        return DescribeOrder(run_id=self.run_id, round_index=round_index, seed=self.seed, confirmed=confirmed)

    def evaluate(self, model: Models, *, client: ClientId, round_index: int) -> EvaluateOrder:
        """Return the order to test a model."""
        return EvaluateOrder(
            run_id=self.run_id,
            round_index=round_index,
            model=model,
            layout=self.layout,
            settings=replace(self.settings, client=client).record(),
            seed=self.seed,
        )


def check_plan(plan: TrainingPlan) -> None:
    """Raise if a plan asks for something that no order can say."""
    asks = {
        "probes": plan.is_probe,
        "clients that choose their model": plan.chooses,
        "samples of earlier intervals": plan.blocks is not None,
        "a part of each update": plan.upload_shares is not None,
        "a pull toward other models": plan.pull is not None,
        "several models of one client": np.unique(plan.clients).size < plan.clients.size,
    }
    if wish := next((name for name, is_asked in asks.items() if is_asked), None):
        raise InputError(f"the method asks for {wish}, which a deployment cannot do; choose fielding or global")
