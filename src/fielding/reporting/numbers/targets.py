"""How long a run takes to a target: until it stays there, first is there, or is there five times in a row."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.numbers.run_summary import evaluations, first_crossing, reached

Settings: TypeAlias = Mapping[str, Json]
"""What tells a variant from others, by dotted key of the config."""
METHOD = "method.name"
BASELINE = "global"
"""The method whose final accuracy is the target, and that others are held against, if there is one of that name."""


def references(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whom each variant is held against; one that others are held against has its own name.

    A variant is held against the variant of the reference's method that agrees with it in all other settings: with two
    drift scenarios, each against the reference method on the same scenario. Settings that the reference method does not
    have do not matter. Without such a variant, it is the reference itself.

    Parameters
    ----------
    variants
        What each is set to; nothing if that is not known.
    reference
        The name of the reference; None if there is nothing to be held against.

    Examples
    --------
    >>> names = {f"{method} {data}": {METHOD: method, "trace.scenario": data}
    ...          for method in ("global", "ifca") for data in ("places", "static")}
    >>> references(names, "global places")["ifca static"]
    'global static'
    """
    method = variants.get(reference or "", {}).get(METHOD)
    if reference is None or method is None:
        return dict.fromkeys(variants, reference)
    others = {
        name: counterpart(variants, name, str(method)) or reference
        for name, settings in variants.items()
        if settings.get(METHOD) != method
    }
    own = {*others.values(), reference}
    # A variant of the reference's method that nobody is held against is one more value of what is varied.
    return {name: others.get(name, name if name in own else reference) for name in variants}


def targets(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whose final accuracy each variant is to reach.

    That of ``global`` with the same other settings; where there is no such method, that of whom it is held against.

    Examples
    --------
    >>> targets({"ifca": {}, "global": {}}, "ifca")
    {'ifca': 'global', 'global': 'global'}
    """
    baselines = _baselines(variants)
    if reference is None or not baselines or reference in baselines:
        return references(variants, reference)
    return references(variants, baselines[0])


def counterpart(variants: Mapping[str, Settings], name: str, method: str) -> str | None:
    """Return the variant of a method whose settings are all those of a variant too; of several the one with most.

    None if there is none.
    """
    own = _besides_method(variants.get(name, {}))
    fitting = {
        other: len(theirs)
        for other, settings in variants.items()
        if settings.get(METHOD) == method and (theirs := _besides_method(settings)).items() <= own.items()
    }
    return max(fitting, key=lambda other: fitting[other]) if fitting else None


def first_reference(variants: Mapping[str, Settings], wanted: Iterable[str]) -> str | None:
    """Return who others are held against: one of those wanted, else ``global`` or a variant of it, else the first.

    None for fewer than two.

    Examples
    --------
    >>> first_reference({"ifca": {}, "global": {}}, []), first_reference({"ifca": {}}, ["ifca"])
    ('global', None)
    """
    if len(variants) < 2:
        return None
    return next((one for one in (*wanted, *_baselines(variants)) if one in variants), next(iter(variants)))


def _baselines(variants: Mapping[str, Settings]) -> list[str]:
    """Return the variants of ``global``, the one of that name first."""
    found = [name for name, settings in variants.items() if settings.get(METHOD) == BASELINE]
    return [BASELINE, *found] if BASELINE in variants else found


def _besides_method(settings: Settings) -> dict[str, Json]:
    return {key: value for key, value in settings.items() if key != METHOD and value is not None}


Row = Mapping[str, Json]
IN_A_ROW = 5
"""Evaluations in a row at which a target counts as held."""


def held(rounds: Sequence[Row], target: float, n_in_a_row: int = IN_A_ROW) -> Row | None:
    """Return the first of so many evaluations in a row whose accuracy was not below a target; None without such.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": accuracy} for at, accuracy in enumerate([0.9, 0.7, 0.8, 0.9, 0.8])]
    >>> held(rows, 0.8, 3)["round"], held(rows, 0.8, 4)
    (2, None)
    """
    tested = evaluations(rounds)
    below = [at for at, row in enumerate(tested) if float(str(row["accuracy"])) < target]
    gaps = pairwise([-1, *below, len(tested)])
    return next((tested[before + 1] for before, at in gaps if at - before > n_in_a_row), None)


def times_to_target(rounds: Sequence[Row], target: float | None) -> dict[str, float | None]:
    """Return after how many rounds and simulated seconds a run was at a target, in three senses.

    Parameters
    ----------
    rounds
        The lines of ``rounds.jsonl``.
    target
        The accuracy; None if it is not known, and then nothing is.

    Returns
    -------
    ``rounds_to_target`` and ``time_to_target_s``: until accuracy came to stay at the target or above (its last upward
    crossing). ``..._first_crossing...``: until it first was there. ``..._held...``: until the first of five evaluations
    in a row that were there. A run that is there at its first evaluation needs the rounds up to that one; None if
    it never is.

    Examples
    --------
    >>> rows = [{"round": at, "time_s": 60.0 * (at + 1), "accuracy": at / 4} for at in range(4)]
    >>> found = times_to_target(rows, 0.5)
    >>> found["rounds_to_target"], found["time_to_target_s"], found["rounds_to_held"]
    (3.0, 180.0, None)
    """
    found: dict[str, float | None] = {}
    for name, crossing in (("target", reached), ("first_crossing", first_crossing), ("held", held)):
        row = None if target is None else crossing(rounds, target)
        found[f"rounds_to_{name}"] = None if row is None else float(str(row["round"])) + 1
        found[f"time_to_{name}_s"] = None if row is None else float(str(row["time_s"]))
    return found


def dynamic_regret(rounds: Sequence[Row], oracle: Sequence[Row]) -> float | None:
    """Return how much more accurate the oracle was, as a mean over the rounds in which both were evaluated.

    Examples
    --------
    >>> dynamic_regret([{"round": 0, "accuracy": 0.5}, {"round": 1, "accuracy": 0.75}], [{"round": 1, "accuracy": 1.0}])
    0.25
    """
    best = {row["round"]: float(str(row["accuracy"])) for row in evaluations(oracle)}
    gaps = [best[row["round"]] - float(str(row["accuracy"])) for row in evaluations(rounds) if row["round"] in best]
    return sum(gaps) / len(gaps) if gaps else None
