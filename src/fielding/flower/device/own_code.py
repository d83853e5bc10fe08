"""The user's own code on a device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fielding.flower.device.dataset import OpenDataset
from fielding.flower.device.delivered import OnModel
from fielding.flower.device.samples import Clock, Describe, LoadData
from fielding.runtime.own_code import Metric, OwnTraining

ModelFactory = Callable[..., object]  # makes a torch module: factory(input_shape=..., n_classes=...)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnCode(OwnTraining):
    """What the user brings along.

    As of :func:`~fielding.flower.device.client_app.client_app`; drift is judged by labels even with ``describe``.
    """

    load_data: LoadData
    dataset: OpenDataset | None = None
    describe: Describe | None = None
    model: ModelFactory | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    on_model: OnModel | None = None
    clock: Clock | None = None
