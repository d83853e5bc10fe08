"""The rules that a coordinator follows, as data that a checkpoint can hold."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from fielding._typing import Json
from fielding.config.options import check_flag, check_number
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.trigger import TRIGGERS, CenterShift, Trigger
from fielding.coordinator.warm_start import check_inheritance
from fielding.distance import Kind, checked_kind, metric_named
from fielding.errors import OptionError, echo, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to measure, when to re-cluster, how to cluster and what new clusters inherit.

    Parameters
    ----------
    kind
        ``"histogram"``: representations are shares that sum to one; ``"vector"``: any finite numbers.
    metric
        Name of the distance: l1, l2, hellinger, js (Jensen-Shannon), cosine; hellinger and js need histograms.
    trigger
        When all are grouped anew: :class:`CenterShift`, :class:`Pairwise`, ``LearnedTau()``, ``Always()``, ``Never()``.
    clusterer
        How to group, and into how many.
    inherit
        What a new cluster's model is made of: ``"average"`` by head count (the paper's), ``"majority"`` or
        ``"nearest"`` old center, dormant ones included.
    robust
        Whether few clients with far reports are kept from taking clusters away from the others: they do not count for
        centers, and do not hide groups from the choice of K (docs/decisions, 47). False: the published method.
    seed
        All random choices follow from it and from the number of the event.
    noise_variance
        Variance of the noise that clients add to each count of samples before they divide it by their number of
        samples; 0: reports are exact. With noise clients move only where their report says so beyond it, and are
        grouped by the roots of what is above zero.
    has_shares
        Whether noised reports are shares; else they are means of vectors of length 1 at most, grouped as they are.
    """

    kind: Kind = "histogram"
    metric: str = "l1"
    trigger: Trigger = field(default_factory=CenterShift)
    clusterer: Clusterer = field(default_factory=Clusterer)
    inherit: str = "average"
    robust: bool = False
    seed: int = 0
    noise_variance: float = 0.0
    has_shares: bool = True

    def __post_init__(self) -> None:
        checked_kind(self.kind)
        check_number("noise_variance", self.noise_variance, low=0.0, high=1e18)
        if self.noise_variance and (self.kind, self.metric) != ("vector", "l2"):
            raise OptionError(
                f"reports with noise have kind {self.kind!r} and metric {self.metric!r}; use 'vector' and 'l2' for them"
            )
        if not isinstance(self.clusterer, Clusterer):
            raise OptionError(f"clusterer is {echo(self.clusterer)}; give a Clusterer(...)")
        if not callable(getattr(self.trigger, "assess", None)):
            raise OptionError(f"trigger is {echo(self.trigger)}; give an object such as CenterShift() or Always()")
        if metric_named(self.metric).needs_histogram and self.kind != "histogram":
            raise OptionError(
                f"metric {self.metric!r} compares shares; use it with kind 'histogram', not {self.kind!r}"
            )
        check_inheritance(self.inherit)
        check_flag("robust", self.robust)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise OptionError(f"seed is {echo(self.seed)}; give a whole number from 0")


def trigger_named(name: str, options: Mapping[str, object] | None = None) -> Trigger:
    """Return the trigger of this name, with its options."""
    if name not in TRIGGERS:
        raise unknown_name("trigger", name, TRIGGERS)
    kind = TRIGGERS[name]
    known = list(kind.__dataclass_fields__)
    for option in options or {}:
        if option not in known:
            raise unknown_name(f"option of trigger {name!r}", option, known or ["(it has none)"])
    return kind(**dict(options or {}))  # type: ignore[arg-type]


def policy_record(policy: Policy) -> dict[str, Json]:
    """Return the policy as plain values for a checkpoint; only parts that have a name can be written down."""
    if policy.trigger.name not in TRIGGERS or not isinstance(policy.clusterer.partitioner, str):
        raise OptionError("only triggers and partitioners with a registered name can be written to a checkpoint")
    record: dict[str, Json] = asdict(policy)
    if not policy.noise_variance:
        del record["noise_variance"]  # as it was before there was noise
    if policy.has_shares:
        del record["has_shares"]
    options = asdict(policy.trigger)  # type: ignore[call-overload]
    record["trigger"] = {
        "name": policy.trigger.name,
        # JSON has no number for infinity.
        "options": {name: "inf" if value == float("inf") else value for name, value in options.items()},
    }
    return record


def policy_from(record: Mapping[str, Json]) -> Policy:
    """Return the policy that :func:`policy_record` wrote down."""
    fields = dict(record)
    trigger = fields.pop("trigger")
    clusterer = fields.pop("clusterer")
    if not isinstance(trigger, dict) or not isinstance(clusterer, dict):
        raise OptionError("a policy needs a trigger and a clusterer")
    stored = trigger.get("options")
    stored = stored if isinstance(stored, dict) else {}
    options = {name: float("inf") if value == "inf" else value for name, value in stored.items()}
    return Policy(
        trigger=trigger_named(str(trigger["name"]), options),
        clusterer=Clusterer(**clusterer),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )
