"""Clustered federated learning that keeps its clusters right while the clients' data drift.

Reading order: :mod:`fielding.engine.round` (one round, stages 1 to 13 as a list of calls),
:mod:`fielding.client.monitor` (what happens on a device, stages 1 to 4), :mod:`fielding.coordinator.coordinator` (what
happens on the server, stages 5 to 8), :mod:`fielding.simulation.clients` (clients in process),
:mod:`fielding.simulation.experiment` (a whole experiment), :mod:`fielding.comparing.compare` (many of them side by
side), :mod:`fielding.reporting.report_page` (the page about them), :mod:`fielding.engine.replay` (recorded reports
only).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fielding._version import __version__
from fielding.client.drift import AnyChange, Chi2, Periodic, Threshold
from fielding.client.fleet import Fleet
from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import CenterShift, Clusterer, Coordinator, Decision, Pairwise, Policy
from fielding.errors import FieldingError
from fielding.records.checkpoint import load_coordinator, save_coordinator

if TYPE_CHECKING:
    from fielding.comparing.compare import compare
    from fielding.simulation.assembly import Own
    from fielding.simulation.experiment import Result, Start, run
    from fielding.traces.pool import Pool
    from fielding.traces.trace import Trace

__all__ = [
    "AnyChange",
    "CenterShift",
    "Chi2",
    "ClientReport",
    "Clusterer",
    "Coordinator",
    "Decision",
    "FieldingError",
    "Fleet",
    "Monitor",
    "Own",
    "Pairwise",
    "Periodic",
    "Policy",
    "Pool",
    "ReportBatch",
    "Result",
    "Start",
    "Threshold",
    "Trace",
    "__version__",
    "compare",
    "load_coordinator",
    "run",
    "save_coordinator",
]

# Who embeds the coordinator needs no simulator: it is loaded when one of these is asked for.
_LATER = {
    "Own": "fielding.simulation.assembly",
    "Pool": "fielding.traces.pool",
    "Result": "fielding.simulation.experiment",
    "Start": "fielding.simulation.experiment",
    "Trace": "fielding.traces.trace",
    "compare": "fielding.comparing.compare",
    "run": "fielding.simulation.experiment",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
