"""Clustered federated learning that keeps its clusters right while the clients' data drift.

Reading order: :mod:`fielding.engine.round` (one round, stages 1 to 13 as a list of calls),
:mod:`fielding.client.monitor` (what happens on a device, stages 1 to 4), :mod:`fielding.coordinator.coordinator` (what
happens on the server, stages 5 to 8), :mod:`fielding.simulation.clients` (clients in process),
:mod:`fielding.simulation.experiment` (a whole experiment), :mod:`fielding.engine.replay` (recorded reports only).
"""

from fielding._version import __version__
from fielding.client.drift import AnyChange, Chi2, Periodic, Threshold
from fielding.client.fleet import Fleet
from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, ReportBatch
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
    "load_coordinator",
    "run",
    "save_coordinator",
]
