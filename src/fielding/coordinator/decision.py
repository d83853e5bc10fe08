"""What the coordinator decided at one event, complete enough to log and to act on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fielding._typing import ClientId, Json, Matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """The answer to one batch of reports.

    Parameters
    ----------
    reported
        The clients that reported, silent ones included, in the order of ids.
    moved
        Those that changed their cluster one by one, with the centers frozen.
    joined
        Those that were given their first cluster.
    silenced
        Those that went silent: no longer active, cluster kept.
    shift, theta, threshold
        How far a center moved, the mean distance between centers, and the shift that would have been too much;
        None where nothing was assessed.
    started
        Whether these reports made the first clusters.
    reclustered
        Whether all clients were grouped anew.
    cluster_ids
        The stable id of each cluster, in the order of model rows, dormant ones included.
    silhouettes
        Mean silhouette per number of clusters that was tried.
    notes
        What a method that acts on the decision saw or did beside it, for the log.
    mixing
        Share of each old model in each new one, shape ``(n_clusters, n_before)``, rows sum to 1; the identity if
        nothing was re-clustered. Before the first clusters there is one initial model.
    """

    step: int
    reported: Sequence[ClientId] = ()
    moved: Sequence[ClientId] = ()
    joined: Sequence[ClientId] = ()
    silenced: Sequence[ClientId] = ()
    shift: float | None = None
    theta: float | None = None
    threshold: float | None = None
    started: bool = False
    reclustered: bool = False
    cluster_ids: tuple[int, ...] = ()
    n_live: int = 0
    silhouettes: dict[int, float] = field(default_factory=dict)
    notes: dict[str, Json] = field(default_factory=dict)
    mixing: Matrix
