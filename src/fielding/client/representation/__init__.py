"""Stage 2: a window of samples as one vector.

To add a representation, write a frozen dataclass with the verbs of :class:`Representation` and name it in
``REPRESENTATIONS``; ``tests/conformance/test_representations.py`` then checks it with all the others.
"""

from fielding.client.representation.combination import Combination, Part
from fielding.client.representation.confusion import Confusion, Predictions
from fielding.client.representation.embedding import ClassMeans, Embedding, ResidualEmbedding
from fielding.client.representation.gradient import ClassDirections, Gradient, HeadGradient
from fielding.client.representation.label import LabelHistogram, LabelShares, RootLabelShares, SmoothedLabelShares
from fielding.client.representation.loss import Loss
from fielding.client.representation.registry import (
    REPRESENTATIONS,
    representation_named,
    representation_options,
    representation_summary,
)
from fielding.client.representation.representation import Effort, Representation, Seen

__all__ = [
    "REPRESENTATIONS",
    "ClassDirections",
    "ClassMeans",
    "Combination",
    "Confusion",
    "Effort",
    "Embedding",
    "Gradient",
    "HeadGradient",
    "LabelHistogram",
    "LabelShares",
    "Loss",
    "Part",
    "Predictions",
    "Representation",
    "ResidualEmbedding",
    "RootLabelShares",
    "Seen",
    "SmoothedLabelShares",
    "representation_named",
    "representation_options",
    "representation_summary",
]
