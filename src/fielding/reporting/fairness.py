"""How evenly clients are served: what the worst, the best and all of them get."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Json, Vector
from fielding.reporting.client_tests import ClientTests

FIGURES = ("worst_decile", "best_decile", "decile_gap", "client_p10", "client_min", "client_std", "jain_index")
SHARE = 10
"""The worst and the best are one in so many clients, rounded up."""


def fairness(accuracy: Vector) -> dict[str, float]:
    """Return how the accuracies of clients are spread.

    Parameters
    ----------
    accuracy
        Of each client, shape ``(n_clients,)``; NaN for those that have no test samples, who are left out.

    Returns
    -------
    Nothing if nobody is left; else

    ``worst_decile``, ``best_decile``, ``decile_gap``
        Mean of the worst tenth of the clients (rounded up), of the best tenth, and the difference.
    ``client_p10``
        The 10th percentile, between two clients by linear interpolation.
    ``client_min``, ``client_std``
        The worst client; the standard deviation over clients (of all there are, so divided by their number).
    ``jain_index``
        Square of the sum over the number times the sum of squares: 1 if all are served equally (also if all get
        nothing), one over the number of clients if one gets everything.

    Examples
    --------
    >>> found = fairness(np.array([1.0, 0.5, 0.5, np.nan]))
    >>> found["worst_decile"], found["decile_gap"], round(found["jain_index"], 4), round(found["client_p10"], 3)
    (0.5, 0.5, 0.8889, 0.5)
    """
    known = np.sort(accuracy[~np.isnan(accuracy)])
    if not known.size:
        return {}
    n_extreme = -(-known.size // SHARE)
    worst, best = float(known[:n_extreme].mean()), float(known[-n_extreme:].mean())
    squares = float(known.size * (known**2).sum())
    return {
        "worst_decile": worst,
        "best_decile": best,
        "decile_gap": best - worst,
        "client_p10": float(np.quantile(known, 1 / SHARE)),
        "client_min": float(known[0]),
        "client_std": float(known.std()),
        "jain_index": float(known.sum()) ** 2 / squares if squares else 1.0,
    }


def final_fairness(tests: Sequence[ClientTests], final_rounds: Sequence[int]) -> dict[str, Json]:
    """Return the means of these figures over the final evaluations.

    Parameters
    ----------
    tests
        All evaluations.
    final_rounds
        The rounds of those that count.

    Returns
    -------
    The figures of :func:`fairness`; with ``_corrected`` or ``_tuned`` at the end if clients correct or tune their
    models. None if there are no tests of these rounds.
    """
    wanted = set(final_rounds)
    chosen = [one for one in tests if one.round_index in wanted]
    found: dict[str, Json] = dict.fromkeys(FIGURES)
    for how in ("", *(how for how in ("corrected", "tuned") if any(how in one.otherwise for one in chosen))):
        spreads = [fairness(one.accuracy(how)) for one in chosen if not how or how in one.otherwise]
        found |= _means([one for one in spreads if one], f"_{how}" if how else "")
    return found


def _means(spreads: Sequence[dict[str, float]], ending: str) -> dict[str, Json]:
    names = spreads[0] if spreads else ()
    return {f"{name}{ending}": sum(one[name] for one in spreads) / len(spreads) for name in names}
