"""Who is told how a run comes along."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fielding._typing import Json
from fielding.engine.runner import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Callbacks of a run; results depend on none of them, but that the first may stop it.

    Parameters
    ----------
    after_round
        Called after each round with its record; a False stops the run.
    on_phase
        Told what begins: ``"reading digits"``, ..., and at last ``"training"``.
    on_images
        Told how many images of how many are decoded.
    on_trained
        Told how many participants of how many have trained in this round.

    Examples
    --------
    >>> Watching(after_round=lambda row: row["round"] < 3)({"round": 3})
    False
    """

    after_round: Watch = lambda _row: True
    on_phase: Callable[[str], None] = lambda _phase: None
    on_images: Callable[[int, int], None] | None = None
    on_trained: Callable[[int, int], None] = lambda _done, _total: None

    def __call__(self, row: Mapping[str, Json]) -> bool:
        """Return whether to go on after a round."""
        return self.after_round(row)


TRAINING = "training"
"""The phase in which rounds are run."""
