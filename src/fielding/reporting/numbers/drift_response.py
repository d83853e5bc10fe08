"""How accuracy answers a drift: how deep it falls, how long it takes to come back, what was lost meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Vector

BEFORE = 10
"""Rounds before a drift whose evaluations tell how good the models were."""
RECOVERED = 0.95
"""Share of that accuracy at which models count as recovered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """Accuracy over the rounds of a run.

    Parameters
    ----------
    rounds
        The rounds that were evaluated, rising, shape ``(n_evaluations,)``.
    accuracy
        The accuracy after each, same shape.
    n_rounds
        How many rounds the run has; the last evaluation stands for those up to the end.
    """

    rounds: Vector
    accuracy: Vector
    n_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What followed on one drift.

    Parameters
    ----------
    before
        Mean accuracy of the evaluations in the ten rounds before it; of the last one if those have none.
    dip
        ``before`` minus the lowest accuracy after it; negative if accuracy was always higher.
    recovery_rounds
        Rounds from the drift to the first evaluation after the lowest that is back at 95 % of ``before``; 0 if the
        lowest is not below that, None if accuracy did not come back.
    loss_area
        What was lost: ``before`` minus accuracy where that is positive, times the rounds for which an evaluation
        stands (those to the next one), added up.
    """

    before: float
    dip: float
    recovery_rounds: float | None
    loss_area: float


def responses(curve: Curve, drifts: Sequence[float], *, longest: float = np.inf) -> list[Response]:
    """Return the response to each drift, up to the next one.

    Parameters
    ----------
    curve
        Accuracy over rounds.
    drifts
        The rounds in which data drifted, rising; the evaluation of such a round is the first that feels it.
    longest
        So many rounds after a drift are looked at, at most.

    Returns
    -------
    One for each drift that has an evaluation before it and one in its time.

    Examples
    --------
    >>> curve = Curve(rounds=np.array([0.0, 5, 10, 15, 20]), accuracy=np.array([0.7, 0.8, 0.5, 0.7, 0.8]), n_rounds=25)
    >>> found = responses(curve, [6.0])[0]
    >>> round(found.before, 3), round(found.dip, 3), found.recovery_rounds, round(found.loss_area, 3)
    (0.75, 0.25, 14.0, 1.5)
    """
    ends = [*drifts[1:], curve.n_rounds]
    found = [_response(curve, at, min(end, at + longest)) for at, end in zip(drifts, ends, strict=False)]
    return [one for one in found if one is not None]


def mean_response(found: Sequence[Response], prefix: str) -> dict[str, float | int | None]:
    """Return means over drifts, their names with a prefix.

    Returns
    -------
    ``dip``, ``dip_max``, ``recovery_rounds`` (over the drifts from which accuracy came back), ``unrecovered`` (share of
    the others) and ``loss_area``; all None without a drift.

    Examples
    --------
    >>> one = Response(before=0.8, dip=0.2, recovery_rounds=4.0, loss_area=1.0)
    >>> found = mean_response([one, Response(before=0.8, dip=0.5, recovery_rounds=None, loss_area=3.0)], "drift_")
    >>> found["drift_dip"], found["drift_recovery_rounds"], found["drift_unrecovered"], found["drift_loss_area"]
    (0.35, 4.0, 0.5, 2.0)
    """
    back = [one.recovery_rounds for one in found if one.recovery_rounds is not None]
    return {
        f"{prefix}dip": _mean([one.dip for one in found]),
        f"{prefix}dip_max": max((one.dip for one in found), default=None),
        f"{prefix}recovery_rounds": _mean(back),
        f"{prefix}unrecovered": (len(found) - len(back)) / len(found) if found else None,
        f"{prefix}loss_area": _mean([one.loss_area for one in found]),
    }


def _response(curve: Curve, at: float, end: float) -> Response | None:
    """Return what followed from a drift to its end; None if nothing can be said."""
    first, stop = np.searchsorted(curve.rounds, [at, end]).tolist()
    if not 0 < first < stop:
        return None
    start = min(int(np.searchsorted(curve.rounds, at - BEFORE)), first - 1)
    before = float(curve.accuracy[start:first].mean())
    rounds, accuracy = curve.rounds[first:stop], curve.accuracy[first:stop]
    lost = np.maximum(before - accuracy, 0.0) * np.diff(rounds, append=end)
    return Response(
        before=before,
        dip=before - float(accuracy.min()),
        recovery_rounds=_recovery(rounds - at, accuracy, RECOVERED * before),
        loss_area=float(lost.sum()),
    )


def _recovery(since: Vector, accuracy: Vector, wanted: float) -> float | None:
    lowest = int(accuracy.argmin())
    if accuracy[lowest] >= wanted:
        return 0.0
    back = np.flatnonzero(accuracy[lowest:] >= wanted)
    return float(since[lowest + back[0]]) if back.size else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
