"""Clustered federated learning that keeps its clusters right while the clients' data drift.

Reading order: :mod:`fielding.client.monitor` (what happens on a device, stages 1 to 4),
:mod:`fielding.coordinator.coordinator` (what happens on the server, stages 5 to 8), :mod:`fielding.engine.replay` (both
on recorded reports), :mod:`fielding.records.checkpoint` (how it survives a crash).
"""

from fielding._version import __version__
from fielding.client.drift import AnyChange, Chi2, Periodic, Threshold
from fielding.client.fleet import Fleet
from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import CenterShift, Clusterer, Coordinator, Decision, Pairwise, Policy
from fielding.errors import FieldingError
from fielding.records.checkpoint import load_coordinator, save_coordinator

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
    "Pairwise",
    "Periodic",
    "Policy",
    "ReportBatch",
    "Threshold",
    "__version__",
    "load_coordinator",
    "save_coordinator",
]
