"""Stages 5 to 8, on the server: moves, trigger, clustering, warm start; it never sees model weights."""

from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.policy import Policy, trigger_named
from fielding.coordinator.trigger import Always, CenterShift, LearnedTau, Never, Pairwise

__all__ = [
    "Always",
    "CenterShift",
    "Clusterer",
    "Coordinator",
    "Decision",
    "LearnedTau",
    "Never",
    "Pairwise",
    "Policy",
    "trigger_named",
]
