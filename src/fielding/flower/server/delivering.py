"""The server's side of models that reach devices: versions, which one each client is to serve, and which it holds."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask, Models, Vector
from fielding.errors import CheckpointError, FieldingError, echo, error_words
from fielding.federation.evaluation import ClientScores
from fielding.flower.server.exchange import Task
from fielding.flower.wire.orders import (
    Delivery,
    EvaluateOrder,
    Holding,
    ProbeOrder,
    TrainOrder,
    WorkRule,
    digest_of,
    served_view,
)
from fielding.records.versions import FOR_ALL, ModelVersions, Version, now_text, pinned_version
from fielding.runtime.own_code import Tensors, checked_metrics, named_tensors
from fielding.training.layout import Layout

WANTS_NONE = 0  # in place of the code of a key: the client's app takes no models
NEVER = -1  # the round of the version of a client that holds none
_NAMES = ("delivery.held", "delivery.round")
_LOG = logging.getLogger(__name__)


ServerEvaluate: TypeAlias = Callable[[Tensors, Version], Mapping[str, float]]
"""Measures the model of a version on data of the server's: numbers by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """The models of all clusters at the end of a round: a version and a row of ``models`` each.

    ``heads``: what names the parts in which clusters differ, where experts read with those of all; else empty.
    """

    versions: tuple[Version, ...]
    models: Models
    heads: str = ""

    @property
    def round_index(self) -> int:
        """The round at whose end it was made."""
        return self.versions[0].round_index

    def row_of(self, cluster: int) -> int | None:
        """Return the row of a cluster; None if it has none."""
        return next((row for row, one in enumerate(self.versions) if one.cluster == cluster), None)

    def key(self, row: int) -> str:
        """Return what names all that serves a client of a row, by its content."""
        return digest_of(self.models[row]) + self.heads


class Deliveries:
    """Sends each client that takes models the version that it is to serve, with orders that go out anyway.

    A release is made of the models of all clusters whenever they are tested, and when there is a cluster without a
    version. A client is to serve the version that it is pinned to, or its cluster, or else the newest of its cluster.
    A version that is the model of an order itself costs nothing; of others so many travel in a round, to the clients
    with the oldest first. What a client holds it says with every answer.

    Parameters
    ----------
    layout, work
        Of the models, for clients.
    n_shared
        How many numbers at the beginning of a model all clusters share.
    has_experts
        Whether clients read with experts.
    budget
        How many models are sent in a round at most, beside those that clients train or test.
    manifest
        Of the run, for the files.
    evaluate
        The user's own code that measures a model of a cluster on data of the server's, if there is some.

    Attributes
    ----------
    clusters
        Tells the stable ids of the clusters that there are, in the order of their models; to be set before a round.
    """

    def __init__(
        self,
        versions: ModelVersions,
        *,
        layout: Layout,
        work: WorkRule,
        n_shared: int = 0,
        has_experts: bool = False,
        budget: int,
        manifest: Mapping[str, Json] | None = None,
        evaluate: ServerEvaluate | None = None,
    ) -> None:
        self._evaluate = evaluate
        self._versions, self._layout, self._work, self._manifest = versions, layout, work, manifest
        self._n_shared, self._has_experts, self._budget, self._left = n_shared, has_experts, budget, budget
        self.clusters: Callable[[], tuple[int, ...]] = tuple
        self._held: Counts = np.empty(0, dtype=np.int64)
        self._round: Counts = np.empty(0, dtype=np.int64)
        self._newest: Release | None = None
        self._pinned: dict[int, Release] = {}
        self._pins: dict[tuple[str, str], str] = {}
        self._pins_at = 0
        self._cluster_of: Counts = np.empty(0, dtype=np.int64)  # of each client, as far as it is known
        self._keys: dict[tuple[int, int], str] = {}  # of rows of releases, by round
        self._rounds: dict[int, int] = {}  # of versions that were sent, by the code of their key

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined; they have said nothing of models so far."""
        n_new = n_clients - self._held.size
        self._held = np.pad(self._held, (0, n_new), constant_values=WANTS_NONE)
        self._round = np.pad(self._round, (0, n_new), constant_values=NEVER)

    # ---- releases --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a round: its budget is whole, and pins that are new count."""
        self._left = self._budget
        if (at := self._versions.pins_changed_at()) != self._pins_at:
            self._pins, self._pins_at = self._versions.pins(), at
            _LOG.info("fielding: %d clusters or clients are pinned to versions", len(self._pins))

    def release(self, round_index: int, models: Models, row: Counts) -> None:
        """Make a release of the models that serve clients; it is written down by :meth:`record`."""
        clusters = self._clusters_of(models)
        members = np.bincount(row, minlength=len(clusters))
        versions = tuple(
            Version(round_index=round_index, cluster=cluster, n_members=int(members[at]), at=now_text())
            for at, cluster in enumerate(clusters)
        )
        self._take_newest(versions, np.array(models, dtype=np.float32))
        self._cluster_of = np.array(clusters)[row]

    def measure(self) -> dict[int, dict[str, float]]:
        """Return what the user's own code says of the newest release, by cluster and name; it goes with the versions.

        Code that fails is told in the log, and the run goes on without: no device waits for it.
        """
        release = self._newest
        if self._evaluate is None or release is None:
            return {}
        found: dict[int, dict[str, float]] = {}
        for at, version in enumerate(release.versions):
            try:
                given = self._evaluate(named_tensors(self._layout, release.models[at]), version)
                measured = checked_metrics(given, "evaluate of server_app")
            except Exception as error:  # whatever the user's code does
                _LOG.warning("version %s is not tested at the server: %s", version.name, error_words(error))
                continue
            finite = {f"server/{name}": one for name, one in measured.items() if math.isfinite(one)}
            found[version.cluster] = finite
        told = [replace(one, scores={**one.scores, **found.get(one.cluster, {})}) for one in release.versions]
        self._newest = replace(release, versions=tuple(told))
        return found

    def record(self, scores: ClientScores | None = None, row: Counts | None = None) -> None:
        """Write down the newest release, with how it was tested, if it was; ``row``: of all clients."""
        release = self._newest
        if release is None:
            return
        if scores is not None and row is not None:
            tested = row[scores.clients]
            told = [_figures(scores, tested == at) for at in range(len(release.versions))]
            versions = [
                replace(one, scores={**figures, **one.scores})
                for one, figures in zip(release.versions, told, strict=True)
            ]
            release = self._newest = replace(release, versions=tuple(versions))
        self._versions.release(release.versions, release.models, self._layout, self._manifest)

    def serve(self, round_index: int, models: Models, row: Counts) -> None:
        """Take note of which cluster each client is in; if one has no version yet, make a release."""
        clusters = self._clusters_of(models)
        self._cluster_of = np.array(clusters)[row]
        if self._newest is None or any(
            self._newest.row_of(one) is None for one in np.unique(self._cluster_of).tolist()
        ):
            self.release(round_index, models, row)
            self.record()

    def _clusters_of(self, models: Models) -> tuple[int, ...]:
        return (*self.clusters(), FOR_ALL)[: len(models)]

    def _take_newest(self, versions: Sequence[Version], models: Models) -> None:
        self._newest = self._made(versions, models)
        self._keys = {at: key for at, key in self._keys.items() if at[0] != versions[0].round_index}

    def _made(self, versions: Sequence[Version], models: Models) -> Release:
        has_heads = self._has_experts and self._n_shared > 0 and len(models) > 1
        heads = digest_of(models[:, self._n_shared :]) if has_heads else ""
        return Release(versions=tuple(versions), models=models, heads=heads)

    # ---- what a client is to serve ---------------------------------------------------------------------------------

    def _target(self, client: int, client_id: ClientId) -> tuple[Release, int, bool] | None:
        """Return the release and the row that a client is to serve, and whether it is pinned; None: not known yet."""
        cluster = int(self._cluster_of[client]) if client < self._cluster_of.size else None
        if (name := pinned_version(self._pins, client_id, cluster)) is not None:
            found = self._find(name)
            if found is not None:
                return *found, True
        row = None if cluster is None or self._newest is None else self._newest.row_of(cluster)
        return None if row is None or self._newest is None else (self._newest, row, False)

    def _find(self, name: str) -> tuple[Release, int] | None:
        """Return a version by its name; None, and a warning once, if it cannot be read."""
        for release in (*self._pinned.values(), *([] if self._newest is None else [self._newest])):
            for row, version in enumerate(release.versions):
                if version.name == name:
                    return release, row
        try:
            wanted = self._versions.find(name).round_index
            versions = next(one for one in self._versions.releases() if one[0].round_index == wanted)
            self._pinned[wanted] = self._made(versions, self._versions.models(versions, self._layout))
        except FieldingError as error:
            _LOG.warning("the pin to version %s is not followed: %s", echo(name), error)
            self._pins = {target: version for target, version in self._pins.items() if version != name}
            return None
        return self._find(name)

    def _key(self, release: Release, row: int) -> str:
        at = (release.round_index, row)
        if at not in self._keys:
            self._keys[at] = release.key(row)
            self._rounds[_code(self._keys[at])] = release.round_index
        return self._keys[at]

    def lacking(self, clients: Mask, client_ids: Sequence[ClientId]) -> Counts:
        """Return which of some clients take models and lack the one that they are to serve, the oldest first."""
        found = np.flatnonzero(clients & (self._held != WANTS_NONE))
        if not found.size:
            return found
        lacks = [self._lacks(client, client_ids[client]) is not None for client in found.tolist()]
        found = found[np.array(lacks, dtype=np.bool_)]
        return found[np.argsort(self._round[found], kind="stable")]

    def _lacks(self, client: int, client_id: ClientId) -> tuple[Release, int, bool] | None:
        """Return what a client lacks; None if it holds what it is to serve, takes none, or that is not known."""
        if self._held[client] == WANTS_NONE or (target := self._target(client, client_id)) is None:
            return None
        return None if self._held[client] == _code(self._key(*target[:2])) else target

    # ---- orders ----------------------------------------------------------------------------------------------------

    def attach(
        self,
        tasks: Sequence[Task],
        client_at: Callable[[int], int | None],
        client_ids: Sequence[ClientId],
        heard: Vector | None,
    ) -> list[Task]:
        """Return tasks whose orders bring along the versions that their clients lack, as many as the budget allows."""
        digests: dict[tuple[int, ...], str] = {}

        def digest(numbers: Models) -> str:
            place = (numbers.ctypes.data, numbers.size, *numbers.strides)
            if place not in digests:
                digests[place] = digest_of(numbers)
            return digests[place]

        def brings(task: Task, release: Release, row: int) -> bool:
            """Return whether the model of an order is the version that its client lacks."""
            order = task.order
            if isinstance(order, EvaluateOrder):
                model = order.model
            elif isinstance(order, TrainOrder) and not order.plan.chooses and len(order.plan.models) == 1:
                model = order.plan.models[0]
            else:
                return False
            if (order.served is None) == self._has_experts:
                return False
            heads = "" if order.served is None or order.served.heads is None else digest(order.served.heads)
            return digest(model) + heads == self._key(release, row)

        found, waiting = list(tasks), list[tuple[int, int, Delivery]]()
        for at, task in enumerate(tasks):
            client = client_at(task.address)
            is_probe = isinstance(task.order, ProbeOrder) or (
                isinstance(task.order, TrainOrder) and task.order.plan.is_probe
            )
            if client is None or is_probe or client >= self._held.size:
                continue
            if (lacked := self._lacks(client, client_ids[client])) is None:
                continue
            release, row, is_pinned = lacked
            version = release.versions[row]
            delivery = Delivery(
                key=self._key(release, row),
                version=version.name,
                round_index=version.round_index,
                cluster=version.cluster,
                metrics={name: float(str(one)) for name, one in version.scores.items() if _is_number(one)},
                is_pinned=is_pinned,
            )
            if brings(task, release, row):
                found[at] = _with(task, delivery)
                continue
            whole = replace(
                delivery,
                model=release.models[row],
                layout=self._layout,
                work=replace(self._work, client=client_ids[client]),
                served=served_view(release.models, row, heard, n_shared=self._n_shared),
            )
            waiting.append((int(self._round[client]), at, whole))
        for _, at, delivery in sorted(waiting, key=lambda one: one[:2])[: self._left]:
            found[at] = _with(tasks[at], delivery)
            self._left -= 1
        return found

    @property
    def n_left(self) -> int:
        """How many models may still be sent in this round."""
        return self._left

    def note(self, client: int, client_id: ClientId, holding: Holding | None) -> None:
        """Take note of what a client says that it holds."""
        if holding is None:
            return
        if holding.trouble:
            _LOG.warning("client %s refused the model that it was sent: %s", echo(client_id), holding.trouble)
        code = _code(holding.key)
        if code != self._held[client]:
            self._held[client], self._round[client] = code, self._rounds.get(code, NEVER)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs: what clients hold."""
        return dict(zip(_NAMES, (self._held.astype("<i8"), self._round.astype("<i8")), strict=True))

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave; checkpoints of older versions hold none: clients say again."""
        if _NAMES[0] not in arrays:
            return
        held, rounds = (arrays.get(name, np.empty((0, 0))) for name in _NAMES)
        if held.ndim != 1 or held.shape != rounds.shape:
            raise CheckpointError("what clients hold does not fit together; begin anew in another folder")
        self._held, self._round = held.astype(np.int64), rounds.astype(np.int64)

    def return_to(self, round_index: int) -> None:
        """Come back to the end of a round: the newest release up to it counts, if it is still there."""
        releases = [one for one in self._versions.releases() if one[0].round_index <= round_index]
        self._newest = None
        if releases:
            try:
                self._take_newest(releases[-1], self._versions.models(releases[-1], self._layout))
            except FieldingError as error:
                _LOG.warning("the newest versions are made anew: %s", error)


def _with(task: Task, delivery: Delivery) -> Task:
    return task if isinstance(task.order, ProbeOrder) else replace(task, order=replace(task.order, deliver=delivery))


def _code(key: str) -> int:
    """Return a key as a number that arrays can hold; never that of a client that takes no models."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little", signed=True) or 1


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _figures(scores: ClientScores, which: Mask) -> dict[str, Json]:
    """Return how some of the tested clients fare, also by what they do to their models."""
    names = ("accuracy", "test_loss", "n_tested")
    summary = scores.some(which).summary()
    found = {name: one for name, one in summary.items() if name in names or name.startswith("metric/")}
    for how, one in scores.also.items():
        found[f"{how}_accuracy"] = one.some(which).summary()["accuracy"]
    return {name: one for name, one in found.items() if one is not None}
