"""How far two representations lie apart: the metrics, by name.

Every metric returns float64 and is exact to rounding (no expansion of squares), because moves, thresholds and
the choice of K are decided by it. scipy is imported on first use: it costs more than all of Fielding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from fielding._typing import Floats, Matrix
from fielding.errors import unknown_name

TIE = 1e-9  # distances closer than this are equal

Kind: TypeAlias = Literal["histogram", "vector"]
"""What a representation is: shares that sum to one, or any finite numbers."""


def checked_kind(kind: object) -> Kind:
    """Return the kind of representations, or raise with the known ones."""
    if kind not in get_args(Kind):
        raise unknown_name("kind of representation", kind, get_args(Kind))
    return cast(Kind, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A distance between representations."""

    name: str
    summary: str
    between: Callable[[Floats, Floats], Matrix]  # (n, d) rows and (k, d) centers to (n, k) distances
    widest: float  # the largest possible distance between two histograms
    widest_vector: float = np.inf  # the largest possible distance between two vectors of any numbers
    power: int = 1  # the power of the distance that k-means adds up: 2 where the mean minimises squares, else 1
    is_norm: bool = False  # whether the distance is a norm of the difference, hence convex
    has_triangle: bool = True  # whether a detour is never shorter
    needs_histogram: bool = False  # whether negative numbers have no meaning for it

    def diameter(self, kind: Kind) -> float:
        """Return the largest distance that two representations of this kind can have."""
        return self.widest if kind == "histogram" else self.widest_vector


def _l1(rows: Floats, centers: Floats) -> Matrix:
    from scipy.spatial.distance import cdist

    return cdist(rows, centers, "cityblock")


def _l2(rows: Floats, centers: Floats) -> Matrix:
    from scipy.spatial.distance import cdist

    return cdist(rows, centers, "euclidean")


def _hellinger(rows: Floats, centers: Floats) -> Matrix:
    # Widened before the root: a root in float32 misses by more than a tie.
    roots, center_roots = np.sqrt(rows, dtype=np.float64), np.sqrt(centers, dtype=np.float64)
    return np.asarray(_l2(roots, center_roots) / np.sqrt(2.0))


def _jensen_shannon(rows: Floats, centers: Floats) -> Matrix:
    shares, center_shares = _shares(rows), _shares(centers)
    divergences = np.empty((shares.shape[0], center_shares.shape[0]))
    # Not scipy's: that loses half the digits between near-equal histograms (1e-8 where a tie is 1e-9) and answers
    # infinity for a silent row or a subnormal share.
    for column, center in enumerate(center_shares):
        sums = shares + center
        lean = np.divide(shares - center, sums, out=np.zeros_like(sums), where=sums > 0.0)
        divergences[:, column] = (shares * _log1p(lean)).sum(axis=1) + (center * _log1p(-lean)).sum(axis=1)
    return np.asarray(np.sqrt(np.clip(divergences / (2.0 * np.log(2.0)), 0.0, 1.0)))


def _shares(rows: Floats) -> Matrix:
    """Return the rows divided by their sums, zero rows left at zero, in float64."""
    wide = np.asarray(rows, dtype=np.float64)
    sums = wide.sum(axis=1, keepdims=True)
    return np.asarray(wide / np.where(sums > 0.0, sums, 1.0))


def _log1p(lean: Matrix) -> Matrix:
    """Return ``log(1 + lean)``, and 0 at -1, where the share it is multiplied by is nothing."""
    return np.asarray(np.log1p(lean, out=np.zeros_like(lean), where=lean > -1.0))


def unit_rows(rows: Floats) -> Matrix:
    """Return the rows scaled to length one, zero rows left at zero, in float64."""
    wide = np.asarray(rows, dtype=np.float64)
    # Scaled by the largest entry first: squares of tiny or huge numbers leave the range of floats.
    scale = np.max(np.abs(wide), axis=1, keepdims=True, initial=0.0)
    scaled = wide / np.where(scale > 0.0, scale, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(lengths > 0.0, lengths, 1.0))


def _cosine(rows: Floats, centers: Floats) -> Matrix:
    return np.clip(1.0 - unit_rows(rows) @ unit_rows(centers).T, 0.0, 2.0)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(name="l1", summary="sum of absolute differences (the paper's)", between=_l1, widest=2.0, is_norm=True),
        Metric(name="l2", summary="Euclidean", between=_l2, widest=float(np.sqrt(2.0)), power=2, is_norm=True),
        Metric(
            name="hellinger",
            summary="Euclidean between square roots of shares; hard to pull by one-sided reports",
            between=_hellinger,
            widest=1.0,
            widest_vector=1.0,
            power=2,
            needs_histogram=True,
        ),
        Metric(
            name="js",
            summary="root of the Jensen-Shannon divergence, base 2",
            between=_jensen_shannon,
            widest=1.0,
            widest_vector=1.0,
            power=2,
            needs_histogram=True,
        ),
        Metric(
            name="cosine",
            summary="one minus the cosine of the angle",
            between=_cosine,
            widest=1.0,
            widest_vector=2.0,
            has_triangle=False,
        ),
    )
}


def metric_named(name: str) -> Metric:
    """Return the metric of this name."""
    if not isinstance(name, str) or name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]
