"""Two halves of some updates that are as unlike as possible (CFL's split)."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Mask, Models
from fielding.methods.gram import cosines_from, products


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bipartition:
    """Two halves.

    Parameters
    ----------
    is_second
        Which updates are in the second half, shape ``(n_updates,)``; the first update is in the first.
    likeness
        The largest cosine between updates of different halves.
    """

    is_second: Mask
    likeness: float

    @property
    def gap(self) -> float:
        """How far the halves are apart: ``sqrt((1 - likeness) / 2)``, from 0 (alike) to 1 (opposite)."""
        return float(np.sqrt(max(0.0, 1.0 - self.likeness) / 2.0))


def bipartition(updates: Models) -> Bipartition:
    """Return the last two clusters of complete linkage on the cosines; time grows with the square of the updates.

    Parameters
    ----------
    updates
        float32, shape ``(n_updates, n_numbers)``, at least two.

    Examples
    --------
    >>> found = bipartition(np.array([[1.0, 0.0], [-1.0, 0.1], [1.0, 0.1]], dtype=np.float32))
    >>> found.is_second.tolist(), round(found.gap, 2)
    ([False, True, False], 1.0)
    """
    # Here and not above: scipy costs more than all of Fielding to import.
    from scipy.cluster.hierarchy import cut_tree, linkage

    likeness = cosines_from(products(updates, updates))
    # Not below 0: of equal updates, rounding alone would make a distance of less, which scipy refuses.
    distances = np.maximum(0.0, 1.0 - likeness[np.triu_indices(likeness.shape[0], k=1)])
    labels = cut_tree(linkage(distances, method="complete"), n_clusters=[2])[:, 0]
    is_second = np.asarray(labels != labels[0])
    return Bipartition(is_second=is_second, likeness=float(likeness[np.ix_(is_second, ~is_second)].max()))
