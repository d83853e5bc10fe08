"""Options that several commands share, and the policy they add up to."""

import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, cast

import typer

from fielding.cli.console import tell
from fielding.config.rules import parse_factor
from fielding.coordinator.clustering import PARTITIONERS, Clusterer
from fielding.coordinator.policy import Policy, trigger_named
from fielding.coordinator.trigger import TRIGGERS
from fielding.coordinator.warm_start import INHERIT
from fielding.distance import METRICS, Kind
from fielding.errors import OptionError


@dataclass
class StopRequest:
    """Whether a stop was asked for, with which signal last, and whether the work goes in steps by now.

    While it is still prepared, the first signal stops it at once.
    """

    received: int | None = None
    is_stepping: bool = True

    @property
    def exit_code(self) -> int:
        """What the shell is told: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.received or signal.SIGINT)


@contextmanager
def stop_on_signal(step: str = "step", *, is_stepping: bool = True) -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM in the request that is handed out; the old handlers come back afterwards.

    The first signal is acknowledged with a line. A second one, or the first before the steps begin, raises
    KeyboardInterrupt.
    """
    request = StopRequest(is_stepping=is_stepping)

    def note(number: int, _frame: FrameType | None) -> None:
        is_first, request.received = request.received is None, number
        if not (is_first and request.is_stepping):
            raise KeyboardInterrupt
        with contextlib.suppress(RuntimeError):  # it came while a line was being written
            tell(f"stopping after this {step}; once more to stop now")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def out_path(text: str | Path) -> Path:
    """Return where to write, as it was typed; an empty text, of a variable that is not set, is no place."""
    if not str(text):
        raise OptionError("--out is empty; name where to write, or . for the current folder")
    return Path(text)


OUT: dict[str, Any] = {"parser": out_path, "metavar": "PATH"}
"""How every command reads ``--out``."""


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
Robust = Annotated[
    bool, typer.Option("--robust", help="Few clients with far reports neither hide groups nor force a re-clustering.")
]
Inherit = Annotated[str, typer.Option(help=f"What a new cluster's model is made of: {_names({**INHERIT})}.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
On = Annotated[
    str,
    typer.Option(
        "--on", metavar="WHERE", help="local, ray (this machine's or RAY_ADDRESS's cluster) or ray://HOST:PORT."
    ),
]
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
    delta_rule: str = "max",
    robust: bool = False,
) -> Policy:
    """Return the policy that the options of a command describe."""
    options: dict[str, dict[str, object]] = {
        "center-shift": {"tau": parse_factor(tau), "reference": reference},
        "pairwise": {"step": delta_step, "rule": delta_rule},
    }
    return Policy(
        kind=cast(Kind, kind),
        metric=metric,
        trigger=trigger_named(trigger, options.get(trigger)),
        clusterer=Clusterer(partitioner=partitioner, k_max=k_max, hysteresis=hysteresis, warm_start=warm_start),
        inherit=inherit,
        robust=robust,
        seed=seed,
    )
