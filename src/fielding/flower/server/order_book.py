"""How the orders of a run are worded: what a plan asks of a client, as the client is told."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import ClientId, Models
from fielding.errors import InputError
from fielding.federation.clients import Pull, TrainingPlan
from fielding.flower.device.local_jobs import JobSettings
from fielding.flower.wire.orders import (
    NO_LAYOUT,
    Block,
    DescribeOrder,
    EvaluateOrder,
    OrderedPull,
    ProbeOrder,
    TrainOrder,
    Wanted,
)
from fielding.training.layout import Layout
from fielding.training.rates import LearningRate

MOST_RUNS = 1000
"""Parts of a model that a pull may treat differently."""


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
    fine_tune
        Steps that clients take on the model that serves them, for a second test; 0: none.
    keeps_aside
        Whether clients keep samples aside to judge models by.
    """

    run_id: str
    layout: Layout
    seed: int
    n_steps: int
    rate: LearningRate
    settings: JobSettings
    fine_tune: int = 0
    keeps_aside: bool = False

    def train(self, plan: TrainingPlan, job: int, *, client: ClientId, round_index: int, confirmed: int) -> TrainOrder:
        """Return the order of a job; with a choice it holds all models of the plan."""
        n_steps = self.n_steps if plan.n_steps is None else plan.n_steps
        start, is_choice = int(plan.start[job]), plan.chooses and plan.models.shape[0] > 1
        rates = None if plan.rate_factors is None else plan.rate_factors.tolist()
        factor = 1.0 if rates is None or is_choice else rates[start if plan.chooses else job]
        settings = replace(
            self._training_settings(plan),
            client=client,
            learning_rate=self.rate.at(round_index),
            rate_factor=factor,
        )
        share = None if plan.upload_shares is None else float(plan.upload_shares[job])
        return TrainOrder(
            run_id=self.run_id,
            round_index=round_index,
            model=plan.models[0 if is_choice else start],
            others=tuple(plan.models[1:]) if is_choice else (),
            rate_factors=tuple(rates) if is_choice and rates is not None else (),
            layout=self.layout,
            settings=settings.record(),
            n_steps=int(np.broadcast_to(n_steps, plan.clients.shape)[job]),
            seed=self.seed,
            confirmed=confirmed,
            with_start_loss=plan.with_start_loss,
            block=None if plan.blocks is None else tuple(plan.blocks[job].tolist()),
            pull=None if plan.pull is None else ordered_pull(plan.pull, job),
            share=None if share is None or share >= 1.0 else share,
            is_probe=plan.is_probe,
        )

    def _training_settings(self, plan: TrainingPlan) -> JobSettings:
        """Return the rule of a plan: what is only looked at, or learned from samples that it names, leaves no trace."""
        settings = self.settings
        if plan.is_probe:
            settings = replace(settings, moon=0.0)
        return replace(settings, rehearsal=False) if plan.is_probe or plan.blocks is not None else settings

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
            settings=replace(
                self.settings, client=client, learning_rate=self.rate.at(round_index), fine_tune=self.fine_tune
            ).record(),
            seed=self.seed,
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
    ) -> ProbeOrder:
        """Return the order to say how models do, or how many samples there are; a row per model, perhaps none."""
        return ProbeOrder(
            run_id=self.run_id,
            round_index=round_index,
            seed=self.seed,
            confirmed=confirmed,
            wanted=wanted,
            models=tuple(models),
            layout=self.layout if len(models) else NO_LAYOUT,
            settings=replace(self.settings, client=client).record() if len(models) else {},
            blocks=blocks,
        )


def ordered_pull(pull: Pull, job: int) -> OrderedPull | None:
    """Return the pull on a job as an order says it; None if nothing is pulled.

    Raises
    ------
    InputError
        If every number is pulled differently: an order would be as large as another model.

    Examples
    --------
    >>> anchors = np.array([[1, 2, 3]], dtype=np.float32)
    >>> pull = Pull(anchors=anchors, row=np.array([0]), strength=np.array([0.5, 0.5, 0.0]))
    >>> found = ordered_pull(pull, 0)
    >>> found.anchor.tolist(), found.runs
    ([1.0, 2.0], ((2, 0.5),))
    """
    stops = [*(np.flatnonzero(np.diff(pull.strength)) + 1).tolist(), pull.strength.size]
    runs = [(stop, float(pull.strength[stop - 1])) for stop in stops]
    if runs[-1][1] == 0.0:
        runs.pop()
    if len(runs) > MOST_RUNS:
        raise InputError(
            f"the method pulls {len(runs)} parts of a model differently; an order names {MOST_RUNS}, use the simulator"
        )
    return OrderedPull(anchor=pull.anchors[pull.row[job], : runs[-1][0]], runs=tuple(runs)) if runs else None
