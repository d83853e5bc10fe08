"""Models that are delivered to a device: versions in files that are there whole or not at all, the last few of them.

``model-VERSION-KEY.fielding`` is a version. ``serving.json`` (the shelf) says which one came last and which one serves:
it is written after the version that it names, and names another one only after the app's ``on_model`` took it.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.flower.device.state import DeviceState, HeldModel, write_held
from fielding.flower.wire.orders import EvaluateOrder, Order, ProbeOrder, TrainOrder
from fielding.records.container import raise_if_unreadable
from fielding.runtime.own_code import DeviceNode, Tensors

SHELF, PREFIX = "serving.json", "model-"
MOST_VERSIONS = 3  # that a device keeps, the one that serves among them
_FileName: TypeAlias = Annotated[str, Meta(pattern=rf"^({PREFIX}[A-Za-z0-9-]{{1,160}}\.fielding)?$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known of a model that a device serves.

    Parameters
    ----------
    version
        Its name in the run folder, as ``r41-c2``: made at the end of round 41, of cluster 2.
    run, round_index, cluster
        The run that made it, in which round, and for which cluster; -1: for all clients, since this one has none yet.
    serves
        What reads samples with it: ``"model"``, as it is; ``"corrected"``, shifted to the device's label mix; or
        ``"experts"``, weighed by evidence.
    metrics
        How the cluster did with it when it was tested, such as ``accuracy``; empty if it is not known yet.
    experts
        How much the device believes each of its experts, by name; empty without experts or samples.
    is_pinned
        Whether an operator chose it in place of the newest.
    node
        Where this is: its config has settings of one's own, its folder is for files of one's own.
    """

    version: str
    run: str
    round_index: int
    cluster: int
    serves: str
    node: DeviceNode
    metrics: Mapping[str, float] = field(default_factory=dict)
    experts: Mapping[str, float] = field(default_factory=dict)
    is_pinned: bool = False


OnModel: TypeAlias = Callable[[Tensors, ModelInfo], object]
"""Takes the model that a device is to serve from now on; if it raises, the version before goes on serving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Which version came last, and which one serves.

    ``delivered``, ``serving``, ``refused``: names of files; empty for none. ``key``, ``round_index``, ``has_experts``:
    of what came last, and in the order of which round. ``evidence``: what the weights of experts were when the app was
    last told.
    """

    delivered: _FileName = ""
    key: str = ""
    round_index: int = -1
    has_experts: bool = False
    serving: _FileName = ""
    evidence: str = ""
    refused: _FileName = ""


def read_shelf(folder: Path) -> Shelf:
    """Return what a device has; nothing if there is none, or the file is damaged.

    Raises :class:`InputError` if it cannot be read now: it may be good, and stays.
    """
    try:
        return msgspec.json.decode((folder / SHELF).read_bytes(), type=Shelf)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Shelf()
    except OSError as error:
        raise_if_unreadable(folder / SHELF, error)
        raise


def write_shelf(folder: Path, shelf: Shelf) -> None:
    """Write what a device has, then remove versions that it keeps no longer."""
    with replaced_file(folder / SHELF) as file:
        file.write(msgspec.json.encode(shelf))
    named = {shelf.delivered, shelf.serving}
    for path in versions_in(folder)[MOST_VERSIONS:]:
        if path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()


def versions_in(folder: Path) -> list[Path]:
    """Return the files of the versions that a device keeps, the newest first."""
    dated: list[tuple[int, Path]] = []
    for path in folder.glob(f"{PREFIX}*.fielding"):
        with contextlib.suppress(OSError):  # another process may remove some
            dated.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(dated, reverse=True)]


def keep_delivered(folder: Path, order: Order, *, is_own: bool) -> None:
    """Write the version that an order delivers, if it does; one of an earlier round than the last changes nothing.

    ``is_own``: whether the app's own code trains.
    """
    delivery = None if isinstance(order, ProbeOrder) else order.deliver
    shelf = read_shelf(folder)
    if delivery is None or order.round_index < shelf.round_index:
        return
    model, layout, work, served = delivery.model, delivery.layout, delivery.work, delivery.served
    if model is None and isinstance(order, (TrainOrder, EvaluateOrder)):
        model = order.model if isinstance(order, EvaluateOrder) else order.plan.models[0]
        layout, work, served = order.layout, order.work, order.served
    if model is None or layout is None or work is None:
        return
    name = f"{PREFIX}{delivery.version}-{delivery.key}.fielding"
    about: dict[str, Json] = {
        "version": delivery.version,
        "run": order.run_id,
        "round": delivery.round_index,
        "cluster": delivery.cluster,
        "metrics": dict(delivery.metrics),
        "pinned": delivery.is_pinned,
        "observe": dict(order.observe),
        "own": is_own,
    }
    held = HeldModel(key=delivery.key, model=model, layout=layout, work=work, served=served, about=about)
    write_held(folder, name, held)
    write_shelf(
        folder,
        Shelf(
            delivered=name,
            key=delivery.key,
            round_index=order.round_index,
            has_experts=served is not None,
            serving=shelf.serving,
            evidence=shelf.evidence,
            refused=shelf.refused,
        ),
    )


class _About(msgspec.Struct, kw_only=True):
    version: str
    run: str
    round: int
    cluster: int
    metrics: dict[str, float]
    pinned: bool


def model_info(held: HeldModel, node: DeviceNode, experts: Mapping[str, float]) -> ModelInfo:
    """Return what is known of a version that was read."""
    about = msgspec.convert(dict(held.about), _About)
    serving = held.work.serving
    serves = "corrected" if serving.is_corrected else "model"
    return ModelInfo(
        version=about.version,
        run=about.run,
        round_index=about.round,
        cluster=about.cluster,
        serves="experts" if held.served is not None and serving.experts else serves,
        node=node,
        metrics=about.metrics,
        experts=experts,
        is_pinned=about.pinned,
    )


def evidence_of(state: DeviceState) -> str:
    """Return a short name of what a device knows of its experts."""
    weights = state.experts.get("expert_weights", np.empty(0))
    return blake2b(np.ascontiguousarray(weights).tobytes(), digest_size=8).hexdigest()
