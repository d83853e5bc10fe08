"""How the orders of a run are worded: slices of plans, tests and questions, each with the rule of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fielding._typing import ClientId, Json, Models
from fielding.federation.clients import TrainingPlan
from fielding.flower.wire.orders import (
    NO_LAYOUT,
    Block,
    DescribeOrder,
    EvaluateOrder,
    ProbeOrder,
    TrainOrder,
    Wanted,
    WorkRule,
)
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
