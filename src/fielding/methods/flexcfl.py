"""FlexCFL: a fixed number of groups by the direction of a short pre-training.

Duan et al., "Flexible Clustered Federated Learning for Client-Level Data Distribution Shift", TPDS 2022 (METHODS.md 2).
Read :meth:`FlexCFL.adapt` first: the groups of the start, then a group for clients that drifted or came.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models
from fielding.client.drift import DriftTest, FlexcflOriginal, Threshold
from fielding.client.report import ReportBatch
from fielding.config.options import flag, number, one_of, whole
from fielding.coordinator.clustering import KMeans
from fielding.coordinator.clustering.labels import in_order_of_appearance
from fielding.distance import METRICS
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import mean_model, mix_models
from fielding.methods.kinds import MethodKind, ReportsFrom
from fielding.methods.method import MethodSetting, client_index, draw_clients, plan_by_cluster, plan_probe, positions_of
from fielding.methods.update_geometry import cosines, norms, products, update_deltas
from fielding.rng import stream

Anchor = Literal["initial", "global"]
Newcomers = Literal["picked", "all"]
DETECTORS: dict[str, DriftTest] = {"corrected": Threshold(eps=0.2), "original": FlexcflOriginal(share=0.2)}
"""The shift test as the authors meant it, and as they coded it."""
_ROUNDING = 1e-12  # share of the largest eigenvalue below which another one is rounding


class FlexCFL:
    """Groups clients by how they would change the initial model; who drifted asks again which group suits it.

    Parameters
    ----------
    k
        Groups; fewer if fewer clients answer at the start. No group ever comes or goes later.
    alpha
        The groups are found with ``alpha * k`` random clients, or all.
    pretrain_steps
        Local steps of a cold start, by which a client finds its group.
    eta_g
        How strongly the groups that trained in a round pull each other.
    detector
        ``"corrected"``: label shares moved by more than 0.2; ``"original"``: the sorted label counts did.
    anchor
        What a cold start begins with: ``"initial"`` for the initial model, compared with directions that stay what they
        were at the start; ``"global"`` for the mean of all groups' models, compared with how each differs from it now.
    cache_anchor
        Whether clients keep the initial model, so that only their first cold start downloads it.
    newcomers
        ``"picked"``: each round as many clients without a group look for one as take part in a round; ``"all"``: at
        once.
    cold_start
        Whether there are cold starts at all; without them it is federated averaging, ``k`` must be 1.
    """

    def __init__(
        self,
        setting: MethodSetting,
        *,
        k: int = 5,
        alpha: int = 20,
        pretrain_steps: int = 50,
        eta_g: float = 0.0,
        detector: str = "corrected",
        anchor: Anchor = "initial",
        cache_anchor: bool = False,
        newcomers: Newcomers = "picked",
        cold_start: bool = True,
    ) -> None:
        self._k, self._alpha = whole("k", k), whole("alpha", alpha)
        self._pretrain_steps = whole("pretrain_steps", pretrain_steps)
        self._eta_g = number("eta_g", eta_g, most=np.inf)
        self._cache_anchor, self._cold_start = flag("cache_anchor", cache_anchor), flag("cold_start", cold_start)
        one_of("detector", detector, DETECTORS)
        self._anchor = one_of("anchor", anchor, get_args(Anchor))
        self._newcomers = one_of("newcomers", newcomers, get_args(Newcomers))
        if cache_anchor and anchor == "global":
            raise OptionError("cache_anchor is true but the anchor changes every round; leave it out")
        if not cold_start and k > 1:
            raise OptionError(f"cold_start is false but only it finds the {k} groups; give k = 1, or leave it on")
        self._initial = setting.initial.astype(np.float32)
        self._parts, self._seed = setting.parts, setting.seed
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._index = client_index(setting.client_ids)
        n_clients = len(setting.client_ids)
        self._membership: Membership = np.full(n_clients, -1 if cold_start else 0, dtype=np.int32)
        self._shifted: Mask = np.zeros(n_clients, dtype=np.bool_)
        self._has_anchor: Mask = np.zeros(n_clients, dtype=np.bool_)
        self._directions: Models = np.empty((0, 0), dtype=np.float32)

    @property
    def models(self) -> Models:
        """One row per group; the initial model alone before there are groups."""
        return self._cluster_models.models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined look for a group, like all clients without one."""
        n_new = len(client_ids) - self._membership.size
        group = -1 if self._cold_start else 0
        self._membership = np.pad(self._membership, (0, n_new), constant_values=group)
        self._shifted, self._has_anchor = np.pad(self._shifted, (0, n_new)), np.pad(self._has_anchor, (0, n_new))
        self._index = client_index(client_ids)

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:
        """Find the groups at the start, and later a group for clients that drifted or came."""
        if not self._cold_start:
            return
        # A client without data cannot be asked, and keeps its group.
        reporters = positions_of(reports.client_ids, self._index)
        self._shifted[reporters] = self._membership[reporters] >= 0
        if not self._directions.size:
            self._start(clients)
        if self._directions.size:
            self._assign(clients)

    def _start(self, clients: Clients) -> None:
        """Find the groups with some clients; if none of them answers, there will be another try."""
        who = draw_clients(clients, clients.askable(), self._alpha * self._k, purpose="cold-start")
        if not who.size:
            return
        updates, moved = self._pretrain(clients, who)
        n_answers = updates.clients.size
        if not n_answers:
            return
        rng = stream(self._seed, "cold-start", clients.round_index)
        group = group_by_direction(moved, min(self._k, n_answers), rng=rng)
        members = [group == row for row in range(int(group.max()) + 1)]
        # Mixed first, so that all that is kept per cluster beside the models has a row for each group, too.
        self._cluster_models.mix(np.ones((len(members), 1)))
        self._cluster_models.models = np.stack([mean_model(updates.models[own]) for own in members])
        self._directions = np.stack([mean_model(moved[own]) for own in members])
        self._membership[updates.clients] = group

    def _assign(self, clients: Clients) -> None:
        """Let clients that drifted or have no group join the one whose direction is nearest to theirs."""
        askable, has_group = clients.askable(), self._membership >= 0
        n_new = self._parts.participants if self._newcomers == "picked" else None
        new = draw_clients(clients, askable & ~has_group, n_new, purpose="newcomers")
        who = np.union1d(np.flatnonzero(askable & has_group & self._shifted), new)
        if not who.size:
            return
        updates, moved = self._pretrain(clients, who)
        if self._anchor == "global":
            self._directions = self.models[:, : updates.n_parameters] - mean_model(self.models)[: updates.n_parameters]
        nearest = cosines(moved, self._directions).argmax(axis=1).astype(np.int32)
        before = self._membership[updates.clients]
        # An update of zeros points nowhere: a client with a group stays there, one without goes on without.
        stays = (norms(moved) == 0.0) & (self._directions.shape[0] > 1)
        self._membership[updates.clients] = np.where(stays, before, nearest)
        self._shifted[updates.clients] = False

    def _pretrain(self, clients: Clients, who: Counts) -> tuple[Updates, Models]:
        """Let clients train from the anchor, and return their answers and how each changed it."""
        anchor = (self._initial if self._anchor == "initial" else mean_model(self.models))[np.newaxis]
        downloads = np.where(self._has_anchor[who], 0.0, 1.0) if self._cache_anchor else None
        start = np.zeros(who.size, dtype=np.int64)
        plan = plan_probe(who, anchor, start, n_steps=self._pretrain_steps, downloads=downloads)
        updates = clients.train(plan)
        self._has_anchor[updates.clients] = True
        return updates, update_deltas(updates, anchor)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every group, as the selection of the run does."""
        is_parallel = self._eta_g == 0.0  # else groups pull each other in every round
        return plan_by_cluster(self._cluster_models, self._membership, clients, self._parts, is_parallel=is_parallel)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, group by group, and let groups pull each other if that is asked for."""
        self._cluster_models.learn(updates)
        trained = np.unique(updates.start)
        if self._eta_g > 0.0 and trained.size > 1:
            models = self.models.copy()
            models[trained] = pull_together(models[trained], self._eta_g, updates.n_parameters)
            self._cluster_models.models = models

    def membership(self) -> Membership:
        """Return the group of each client, -1 for those that had no cold start yet."""
        return self._membership.copy()

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models and groups, and who still has to look for one."""
        return {}, {
            **self._cluster_models.arrays(),
            "group": self._membership,
            "shifted": self._shifted,
            "has_anchor": self._has_anchor,
            "directions": self._directions,
            "initial": self._initial,
        }

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)
        self._membership = arrays["group"].astype(np.int32)
        self._shifted, self._has_anchor = (arrays[name].astype(np.bool_) for name in ("shifted", "has_anchor"))
        self._directions, self._initial = (arrays[name].astype(np.float32) for name in ("directions", "initial"))


def flexcfl_detector(options: Mapping[str, Json]) -> DriftTest:
    """Return the drift test that the options of the method name."""
    return DETECTORS[one_of("method.detector", options.get("detector", "corrected"), DETECTORS)]


def flexcfl_reports_from(options: Mapping[str, Json], n_clients: int) -> ReportsFrom:  # noqa: ARG001
    """Return whose reports reach the method: clients that drifted say so, unless none would pre-train for it."""
    return "flags" if options.get("cold_start", True) else "nobody"


def decomposed_cosines(updates: Models, n_directions: int) -> Matrix:
    """Return the cosine of each update with the main directions of all of them (FlexCFL's measure "EDC").

    Shape ``(n_updates, n_directions)``; the sign of a column means nothing. ``updates``: float32, shape
    ``(n_updates, n_numbers)``. ``n_directions``: how many singular vectors, largest first; zeros for those that rank
    does not allow.

    Examples
    --------
    >>> updates = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> np.abs(decomposed_cosines(updates, 2)).round(6).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    # With A = U S V', A V = U S follows from the small matrix A A' alone.
    inner = products(updates, updates)
    values, vectors = np.linalg.eigh(inner)
    found = np.zeros((updates.shape[0], n_directions))
    kept = [at for at in range(values.size - 1, -1, -1) if values[at] > _ROUNDING * values[-1]][:n_directions]
    lengths = np.sqrt(np.diag(inner))[:, np.newaxis]
    parts = vectors[:, kept] * np.sqrt(values[kept])
    np.divide(parts, lengths, out=found[:, : len(kept)], where=lengths > 0.0)
    return found


def group_by_direction(updates: Models, k: int, *, rng: np.random.Generator) -> Membership:
    """Return the group of each update, numbered in the order in which they first appear; at most ``k`` groups.

    There are fewer groups if there are fewer different directions.
    """
    features = decomposed_cosines(updates, k)
    found = KMeans().partitions(features, [k], metric=METRICS["l2"], rng=rng)[k]
    return in_order_of_appearance(found)


def pull_together(models: Models, eta_g: float, n_parameters: int) -> Models:
    """Return each model mixed with the directions of the others, all at once (FlexCFL's rule between groups, as coded).

    ``w_g = (w_g + eta sum_h w_h / |w_h|) / (1 + eta sum_h 1 / |w_h|)`` over the other groups ``h``.

    ``models``: float32, shape ``(n_groups, n_numbers)``. ``n_parameters``: how many numbers of a model count for its
    length.

    Examples
    --------
    >>> pull_together(np.array([[2.0], [-4.0]], dtype=np.float32), 1.0, 1).tolist()
    [[0.800000011920929], [-2.0]]
    """
    lengths = norms(models[:, :n_parameters])
    pulls = np.divide(eta_g, lengths, out=np.zeros(lengths.shape), where=lengths > 0.0)
    mixing = np.tile(pulls, (lengths.size, 1))
    np.fill_diagonal(mixing, 1.0)
    return mix_models(models, mixing / mixing.sum(axis=1, keepdims=True))


KIND = MethodKind(
    summary="groups by the direction of a short pre-training; who drifted pre-trains and joins again (FlexCFL)",
    sends="that it drifted; the initial model down and a pre-trained one up, at the start and after drift",
    reports_from=flexcfl_reports_from,
    detector=flexcfl_detector,
    build=FlexCFL,
)
