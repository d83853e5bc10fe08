"""Stage 2: a window of samples as one vector."""

from fielding.client.representation.label import LabelHistogram

__all__ = ["LabelHistogram"]
