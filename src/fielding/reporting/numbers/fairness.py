"""How evenly clients are served: what the worst, the best and all of them get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Vector

_LARGEST = 2**31
"""A larger number of a round is damage."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientTests:
    """All clients that were tested after a round.

    Parameters
    ----------
    round_index
        The round.
    client_ids
        Who was tested, ``n_clients`` of them.
    cluster
        The cluster of each, -1 for none.
    n_test, correct
        How many test samples each had, and how many of them its model got right.
    otherwise
        How many were right if a client corrected (``"corrected"``) or tuned (``"tuned"``) its model.
    """

    round_index: int
    client_ids: tuple[ClientId, ...]
    cluster: npt.NDArray[np.int32]
    n_test: npt.NDArray[np.int32]
    correct: npt.NDArray[np.int32]
    otherwise: Mapping[str, npt.NDArray[np.int32]]

    def accuracy(self, how: str = "") -> Vector:
        """Return the accuracy of each client, NaN without test samples; ``how`` may name one of ``otherwise``."""
        right = self.otherwise[how] if how else self.correct
        blank = np.full(self.n_test.shape, np.nan)
        return np.asarray(np.divide(right, self.n_test, out=blank, where=self.n_test > 0), dtype=np.float64)


def client_tests(line: Mapping[str, Json]) -> ClientTests:
    """Return what a line of ``clients.jsonl`` tells.

    Raises
    ------
    KeyError, TypeError, ValueError, OverflowError
        If it is damaged.

    Examples
    --------
    >>> line = {"round": 4, "client": ["ann", "bob"], "cluster": [0, 1], "n_test": [4, 2], "correct": [1, 2]}
    >>> one = client_tests(line)
    >>> one.round_index, one.accuracy().tolist()
    (4, [0.25, 1.0])
    """
    ids = line["client"]
    round_index = line["round"]
    if not isinstance(ids, list) or not isinstance(round_index, int):
        raise TypeError
    if not 0 <= round_index < _LARGEST:
        raise ValueError
    found = {name: np.array(line[name], dtype=np.int32) for name in ("cluster", "n_test", "correct")}
    otherwise = {name: np.array(line[name], dtype=np.int32) for name in ("corrected", "tuned") if name in line}
    if any(column.shape != (len(ids),) for column in (*found.values(), *otherwise.values())):
        raise ValueError
    return ClientTests(
        round_index=round_index,
        client_ids=tuple(one if isinstance(one, int) else str(one) for one in ids),
        **found,
        otherwise=otherwise,
    )


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
