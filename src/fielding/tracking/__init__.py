"""Runs shown in other people's tools while they go on: TensorBoard, MLflow, Weights & Biases, or one's own.

To add one, write a class with the verbs of :class:`~fielding.tracking.tracker.Tracker` and give an object of it to
:func:`~fielding.tracking.tracked.tracked`; to name it on the command line, put it in ``TRACKERS``.
"""

from fielding.tracking.mlflow import Mlflow
from fielding.tracking.registry import TRACKERS, TrackedBy, places, tracker_named, trackers_from
from fielding.tracking.tensorboard import TensorBoard
from fielding.tracking.tracked import tracked
from fielding.tracking.tracker import Ending, Figures, TrackedRun, Tracker, figures_of
from fielding.tracking.wandb import Wandb

__all__ = [
    "TRACKERS",
    "Ending",
    "Figures",
    "Mlflow",
    "TensorBoard",
    "TrackedBy",
    "TrackedRun",
    "Tracker",
    "Wandb",
    "figures_of",
    "places",
    "tracked",
    "tracker_named",
    "trackers_from",
]
