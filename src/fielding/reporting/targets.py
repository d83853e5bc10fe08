"""How long a run takes to a target: until it stays there, first is there, or is there five times in a row."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from fielding._typing import Json
from fielding.reporting.run_summary import evaluations, first_crossing, reached

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
