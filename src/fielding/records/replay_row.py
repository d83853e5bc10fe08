"""One line of ``decisions.jsonl``."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """What happened at one step, in numbers.

    The distances are None where they do not exist: no shift at the start, no mean distance while every cluster is a
    singleton. ``is_sampled`` says that the mean distances were estimated from a sample of the clients.
    """

    step: int
    n_reports: int
    n_moved: int
    shift: float | None
    theta: float | None
    reclustered: bool
    n_clusters: int
    mean_client_distance: float | None
    mean_distance_unclustered: float | None
    threshold: float | None
    started: bool
    n_joined: int
    n_silenced: int
    n_clients: int
    n_active: int
    n_dormant: int
    n_singletons: int
    is_sampled: bool
    cluster_sizes: dict[int, int] = field(default_factory=dict)
    silhouettes: dict[int, float] = field(default_factory=dict)
