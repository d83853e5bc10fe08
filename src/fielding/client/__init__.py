"""Stages 1 to 4, on the device: window, representation, drift test, report."""

from fielding.client.arrivals import NO_ARRIVALS, Arrivals
from fielding.client.fleet import Fleet, FleetReports
from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, ReportBatch
from fielding.client.representation.label import LabelHistogram
from fielding.client.window import Window

__all__ = [
    "NO_ARRIVALS",
    "Arrivals",
    "ClientReport",
    "Fleet",
    "FleetReports",
    "LabelHistogram",
    "Monitor",
    "ReportBatch",
    "Window",
]
