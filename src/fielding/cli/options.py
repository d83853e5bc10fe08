"""Options that several commands share, and the policy they add up to."""

from typing import Annotated, cast

import typer

from fielding.coordinator.clustering import PARTITIONERS, Clusterer
from fielding.coordinator.policy import Policy, trigger_named
from fielding.coordinator.trigger import TRIGGERS
from fielding.coordinator.warm_start import INHERIT
from fielding.distance import METRICS, Kind
from fielding.engine.factors import parse_factor


def _names(known: dict[str, object]) -> str:
    return ", ".join(known)


KindOption = Annotated[str, typer.Option(help="histogram (shares that sum to 1) or vector (any numbers).")]
MetricOption = Annotated[str, typer.Option(help=f"Distance: {_names({**METRICS})}.")]
TriggerOption = Annotated[str, typer.Option(help=f"When to re-cluster: {_names({**TRIGGERS})}.")]
Tau = Annotated[
    str, typer.Option(help="Center-shift: factor of the mean distance between centers, e.g. 1/3, 0.5, inf.")
]
Reference = Annotated[str, typer.Option(help="Center-shift: measured since the previous event or last-global.")]
DeltaStep = Annotated[float, typer.Option(help="Pairwise: where the bound on distances within a cluster starts.")]
KMax = Annotated[int, typer.Option(help="Most clusters.")]
Partitioner = Annotated[str, typer.Option(help=f"How to group: {_names({**PARTITIONERS})}.")]
Hysteresis = Annotated[float, typer.Option(help="Keep the number of clusters unless the silhouette gains more.")]
WarmStart = Annotated[bool, typer.Option("--warm-start", help="Start k-means from the current centers, too.")]
Inherit = Annotated[str, typer.Option(help=f"What a new cluster's model is made of: {_names({**INHERIT})}.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")]


def policy_from_options(
    *,
    kind: str,
    metric: str,
    trigger: str,
    tau: str,
    reference: str,
    delta_step: float,
    k_max: int,
    partitioner: str,
    hysteresis: float,
    warm_start: bool,
    inherit: str,
    seed: int,
) -> Policy:
    """Return the policy that the options of a command describe."""
    options: dict[str, dict[str, object]] = {
        "center-shift": {"tau": parse_factor(tau), "reference": reference},
        "pairwise": {"step": delta_step},
    }
    return Policy(
        kind=cast(Kind, kind),
        metric=metric,
        trigger=trigger_named(trigger, options.get(trigger)),
        clusterer=Clusterer(partitioner=partitioner, k_max=k_max, hysteresis=hysteresis, warm_start=warm_start),
        inherit=inherit,
        seed=seed,
    )
