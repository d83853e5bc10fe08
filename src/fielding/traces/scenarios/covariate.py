"""Covariate shift: the labels stay what they are, but clients come to see them with another look."""

from dataclasses import dataclass

import numpy as np

from fielding.config.options import check_whole
from fielding.errors import OptionError
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import View, by_client, client_mixes, deal_view, slot_units, wander
from fielding.traces.scenarios.looks import (
    Blur,
    Brightness,
    Rotation,
    affine_look,
    check_images,
    check_turns,
    feature_range,
)
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_choice, check_share
from fielding.traces.schedule import AS_IS, Look, Schedule

LOOKS = ("auto", "rotation", "brightness", "blur", "mixed", "affine")
IMAGE_CYCLE = ("rotation", "brightness", "blur")
MOST_ROTATIONS, MOST_MIXED = 4, 10  # concepts beyond this would look like earlier ones
LARGEST_BRIGHTENING = 0.5
LARGEST_BLUR = 1 / 8  # standard deviation of the strongest blur, as a share of the shorter side of an image


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariate:
    """Concepts are looks; every client keeps its label mix, and at each event some change to another look.

    Parameters
    ----------
    look
        What changes: ``"rotation"`` (by 90 degrees times the concept), ``"brightness"``, ``"blur"``, ``"mixed"`` (one
        of these per concept, in turn), ``"affine"`` for vectors; ``"auto"`` is rotation for images, affine for vectors.
    concepts
        How many looks there are; the first leaves samples as they are. Four at most for rotation, ten for mixed.
    share
        The chance of a client to change at an event.
    intensity
        How far, from 0 to 1: the size of a brightening (at most half the range of the pixels), a blur (at most an
        eighth of the shorter side) or an affine change. A quarter turn has no size: that share of samples is turned.
    alpha
        The parameter of the Dirichlet distribution of the clients' own label mixes; 0: all have the mix of the pool.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = Covariate(concepts=2).deal(pool, DealRequest(n_clients=3, n_intervals=5), seed=1)
    >>> [type(look).__name__ for look in schedule.looks]
    ['AsIs', 'Affine']
    """

    look: str = "auto"
    concepts: int = 4
    share: float = 0.3
    intensity: float = 1.0
    alpha: float = 0.0

    def __post_init__(self) -> None:
        check_choice("look", self.look, LOOKS)
        most = {"rotation": MOST_ROTATIONS, "mixed": MOST_MIXED}.get(self.look, MOST_CONCEPTS)
        check_whole("concepts", self.concepts, low=1, high=most)
        check_share("share", self.share)
        check_share("intensity", self.intensity)
        check_alpha(self.alpha, may_be_zero=True)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept is the look."""
        looks = concept_looks(pool, self, seed=seed)
        concepts = wander(request, self.concepts, share=self.share, seed=seed)
        mixes = client_mixes(pool, request, alpha=self.alpha, seed=seed)
        # All samples show their look, but for looks that have no size.
        chances = np.array([self.intensity if isinstance(look, Rotation) else 1.0 for look in looks])
        is_changed = slot_units(request, seed, "look") < chances[by_client(concepts)]
        view = View(
            concepts=concepts if self.intensity > 0.0 else np.zeros_like(concepts),
            mixes=mixes,
            mix_of=np.arange(mixes.shape[0])[:, np.newaxis, np.newaxis],
            looks=looks,
            look_of=np.where(is_changed, by_client(concepts), 0),
        )
        return deal_view(pool, request, view, seed=seed)


def concept_looks(pool: Pool, shift: Covariate, *, seed: int) -> tuple[Look, ...]:
    """Return the look of each concept; an error if it does not suit the samples of the pool."""
    kind = shift.look if shift.look != "auto" else "rotation" if pool.is_image else "affine"
    if pool.is_image == (kind == "affine"):
        allowed = "rotation, brightness, blur, mixed" if pool.is_image else "affine"
        samples = "images" if pool.is_image else "vectors"
        raise OptionError(f"look is {kind!r}, but the samples are {samples}; give one of auto, {allowed}")
    if kind == "rotation":
        check_whole("concepts", shift.concepts, low=1, high=MOST_ROTATIONS)
    if kind == "affine":
        rngs = [stream(seed, "scenario look", concept) for concept in range(1, shift.concepts)]
        return (AS_IS, *(affine_look(pool, intensity=shift.intensity, rng=rng) for rng in rngs))
    check_images(pool.shape)
    cycle = IMAGE_CYCLE if kind == "mixed" else (kind,)
    n_others = shift.concepts - 1
    n_levels = -(-n_others // len(cycle))
    kinds_and_levels = [(cycle[at % len(cycle)], at // len(cycle) + 1) for at in range(n_others)]
    others = [
        image_look(pool, kind, level=level, n_levels=n_levels, intensity=shift.intensity)
        for kind, level in kinds_and_levels
    ]
    return (AS_IS, *others)


def image_look(pool: Pool, kind: str, *, level: int, n_levels: int, intensity: float) -> Look:
    """Return one look of the kind ``"rotation"``, ``"brightness"`` or ``"blur"``.

    ``level``, from 1: so many quarter turns; lighter and darker in turn, ever more; ever more blurred. ``intensity``:
    how strong the last level is, from 0 to 1; rotations do not heed it.

    Examples
    --------
    >>> pool = Pool(x=np.zeros((1, 8, 8), dtype=np.uint8), y=np.zeros(1, dtype=np.int32), classes=("a",))
    >>> image_look(pool, "blur", level=1, n_levels=2, intensity=0.5)
    Blur(sigma=0.25)
    """
    if kind == "rotation":
        check_turns(pool.shape, level)
        return Rotation(quarter_turns=level)
    if kind == "blur":
        return Blur(sigma=LARGEST_BLUR * min(pool.shape[:2]) * intensity * level / n_levels)
    low, high = feature_range(pool)
    # Levels 1 and 2 are as light as dark, and so are 3 and 4.
    amount = LARGEST_BRIGHTENING * intensity * min(1.0, (level + level % 2) / n_levels)
    return Brightness(amount=amount if level % 2 else -amount, low=low, high=high)
