"""Stage 2: a window of samples as one vector.

To add a representation, write a frozen dataclass with the verbs of :class:`Representation` and name it in
``fielding.config.parts``; ``tests/conformance/test_representations.py`` then checks it with all the others.
"""

from fielding.client.representation.combination import Combination, Part
from fielding.client.representation.registry import (
    REPRESENTATIONS,
    representation_named,
    representation_options,
    representation_summary,
)
from fielding.client.representation.representation import Effort, Representation, Seen

__all__ = [
    "REPRESENTATIONS",
    "Combination",
    "Effort",
    "Part",
    "Representation",
    "Seen",
    "representation_named",
    "representation_options",
    "representation_summary",
]
