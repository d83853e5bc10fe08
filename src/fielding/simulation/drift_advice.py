"""What to use for which kinds of drift."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fielding.engine.inspection import FEWEST_PAIRS, LITTLE, SURE, UNSURE

Kind: TypeAlias = Literal["labels", "inputs", "meanings"]
KINDS: tuple[Kind, ...] = ("labels", "inputs", "meanings")
POOL_ADVICE = (
    "samples without clients and times do not drift by themselves: choose a scenario that deals them, "
    'for example trace.scenario = "mixed" (docs/scenarios.md)'
)
LITTLE_SHIFT = 1.05
"""Shifts of inputs or meanings below so many times the noise are little: most pairs do not differ at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Whether one kind of difference is there.

    Parameters
    ----------
    difference
        How large it is, in units of what sampling alone would make of it; None if nothing could be compared.
    excess
        How many standard errors it lies above 1.
    n_pairs
        Pairs of groups of samples that were compared.
    verdict
        The same in words.
    """

    difference: float | None
    excess: float | None
    n_pairs: int
    verdict: str

    @property
    def is_sure(self) -> bool:
        """Whether the difference is there beyond doubt, large or small."""
        return self.verdict.startswith("yes")

    @property
    def matters(self) -> bool:
        """Whether the difference is there beyond doubt, and not a little one."""
        return self.verdict.startswith("yes:")

    @property
    def is_open(self) -> bool:
        """Whether nobody can tell."""
        return self.verdict.startswith("cannot")

    @property
    def is_unclear(self) -> bool:
        """Whether nobody can tell, or not for sure."""
        return self.is_open or self.verdict.startswith("perhaps")


def finding(kind: Kind, difference: float | None, excess: float | None, n_pairs: int) -> Finding:
    """Return what a measured difference means.

    Examples
    --------
    >>> finding("inputs", 1.62, 14.2, 300).verdict
    'yes: 1.6 times what sampling alone gives (300 pairs, 14.2 standard errors above)'
    >>> finding("inputs", 1.62, 1.3, 3).verdict
    'cannot be told from so little (3 pairs); another --interval may give more'
    """
    if difference is None or excess is None or (n_pairs < FEWEST_PAIRS and excess < SURE):
        return unknown(f"from so little ({n_pairs:,} pairs); another --interval may give more", n_pairs=n_pairs)
    little = LITTLE if kind == "labels" else LITTLE_SHIFT
    surely = "yes" if difference >= little else "yes, but little"
    answer = surely if excess >= SURE else "perhaps" if excess >= UNSURE else "no"
    told = f"{difference:.2g} times what sampling alone gives ({n_pairs:,} pairs, {excess:.1f} standard errors above)"
    return Finding(difference=difference, excess=excess, n_pairs=n_pairs, verdict=f"{answer}: {told}")


def unknown(why: str, *, n_pairs: int = 0) -> Finding:
    """Return that nobody can tell, and why."""
    return Finding(difference=None, excess=None, n_pairs=n_pairs, verdict=f"cannot be told {why}")


def advice(*places: Mapping[str, Finding], has_features: bool) -> str:
    """Return in a line what to use.

    Parameters
    ----------
    places
        The findings by kind, over time and between clients.
    has_features
        Whether anything but labels could be looked at.

    Examples
    --------
    >>> yes, no = finding("labels", 2.0, 9.0, 99), finding("labels", 1.0, 0.0, 99)
    >>> advice({"labels": yes, "inputs": no, "meanings": no}, has_features=True)
    'only label mixes differ: serving.correction = "prior" with method "global", or "fielding" where clusters pay'
    """
    labels = any(place["labels"].is_sure for place in places)
    beyond = [kind for kind in KINDS[1:] if any(place[kind].matters for place in places)]
    if beyond:
        return _clusters(beyond, with_labels=labels)
    correction = 'serving.correction = "prior" with method "global", or "fielding" where clusters pay'
    is_unclear = any(place[kind].is_unclear for place in places for kind in KINDS[1:])
    if has_features and is_unclear and not all(place["labels"].is_open for place in places):
        what = f"label mixes differ: {correction}" if labels else 'method "global" is the safe choice'
        return f'{what}. Inputs or meanings may differ, which is not clear: try representation "auto" beside it'
    if labels and has_features:
        return f"only label mixes differ: {correction}"
    if labels:
        return f"label mixes differ: {correction}. Whether inputs or meanings differ, labels alone cannot tell"
    if all(place["labels"].is_open for place in places):
        return 'too little to tell: method "global" is the safe choice'
    judged = "nothing differs" if has_features else "label mixes do not differ"
    return f'{judged} beyond sampling noise: method "global"; clusters would only dilute training'


def _clusters(beyond: list[Kind], *, with_labels: bool) -> str:
    """Return what to use where models have to differ."""
    representation = "auto" if len(beyond) > 1 else {"inputs": "class-means", "meanings": "confusion"}[beyond[0]]
    words = " and ".join({"inputs": "inputs", "meanings": "meanings of labels"}[kind] for kind in beyond)
    other = "" if representation == "auto" else ' (or "auto")'
    text = f'{words} differ, which no correction mends: method "fielding", coordinator.representation = '
    text += f'"{representation}"{other}'
    return f'{text}, and serving.correction = "prior" for the label mixes' if with_labels else text
