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

if TYPE_CHECKING:
    from fielding.client.drift import AnyChange, Chi2, Periodic, Threshold
    from fielding.client.fleet import Fleet
    from fielding.client.monitor import Monitor
    from fielding.client.report import ClientReport, ReportBatch
    from fielding.comparing.compare import compare, load
    from fielding.coordinator import CenterShift, Clusterer, Coordinator, Decision, Pairwise, Policy
    from fielding.errors import FieldingError
    from fielding.records.checkpoint import load_coordinator, save_coordinator
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
    "load",
    "load_coordinator",
    "run",
    "save_coordinator",
]

# A device needs no coordinator and an embedded coordinator no simulator: each name is loaded when it is asked for.
_PLACES = {
    "fielding.client.drift": ("AnyChange", "Chi2", "Periodic", "Threshold"),
    "fielding.client.fleet": ("Fleet",),
    "fielding.client.monitor": ("Monitor",),
    "fielding.client.report": ("ClientReport", "ReportBatch"),
    "fielding.comparing.compare": ("compare", "load"),
    "fielding.coordinator": ("CenterShift", "Clusterer", "Coordinator", "Decision", "Pairwise", "Policy"),
    "fielding.errors": ("FieldingError",),
    "fielding.records.checkpoint": ("load_coordinator", "save_coordinator"),
    "fielding.simulation.assembly": ("Own",),
    "fielding.simulation.experiment": ("Result", "Start", "run"),
    "fielding.traces.pool": ("Pool",),
    "fielding.traces.trace": ("Trace",),
}
_LATER = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
