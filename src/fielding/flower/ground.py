"""What a deployment stands on: its config, the model that it begins with, and how its orders are worded."""

import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata

from fielding._typing import Json, Models
from fielding._version import __version__
from fielding.config.keys import Config
from fielding.distance import Kind
from fielding.engine.carried_mix import with_mix
from fielding.engine.describing import Describing
from fielding.engine.plugins import rate_of
from fielding.errors import OptionError
from fielding.federation.aggregation import Aggregator
from fielding.flower.contacts import Presence
from fielding.flower.deployable import check_deployable, described_by
from fielding.flower.exchange import Patience
from fielding.flower.first_models import FirstModel, own_first_model
from fielding.flower.local_jobs import JobSettings
from fielding.flower.model_trial import try_model
from fielding.flower.order_book import OrderBook
from fielding.flower.replies import Expected
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import layout_with_mix, with_even_mix
from fielding.training.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployment:
    """What a deployment runs.

    Parameters
    ----------
    config
        As for the simulator; of the trace, ``window`` and ``gap`` count alone. Reports always travel with training.
    classes
        How many there are.
    shape
        Of one sample, as ``load_data`` of the client app gives it; not used if ``first_model`` is given.
    presence, patience
        How many nodes are needed, and how long they are waited for.
    first_model
        The model that training starts from, if Fielding knows neither it nor how to train it.
    aggregator
        In place of the config's; participants then count by their samples.
    own_vectors
        Whether devices describe their windows by code of the user's own.
    own_settings
        What the run config says to the user's own code alone.
    """

    config: Config
    classes: int
    shape: tuple[int, ...]
    presence: Presence
    patience: Patience
    first_model: FirstModel | None = None
    aggregator: Aggregator | None = None
    own_vectors: bool = False
    own_settings: Mapping[str, Json] = field(default_factory=dict)

    def settled(self) -> Config:
        """Return the config as it counts here, or raise if a deployment cannot do what it says."""
        check_deployable(self.config)
        return replace(self.config, coordinator=replace(self.config.coordinator, reports="with-training"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ground:
    """What a config and the first model make of a run.

    ``draw_model`` gives other models, None if nobody knows how; ``describing`` is how devices describe their windows,
    None if by code of the user's own.
    """

    config: Config
    initial: Models
    layout: Layout
    expected: Expected
    metric: str
    run_id: str
    draw_model: Callable[[int], Models] | None = None
    describing: Describing | None = None

    def manifest(self, table: Mapping[str, Json], deployment: Deployment) -> dict[str, Json]:
        """Return what the results depend on; the machines of clients are not known."""
        return {
            "fielding": __version__,
            "machine": {
                "python": platform.python_version(),
                "system": platform.system(),
                "numpy": metadata.version("numpy"),
            },
            "classes": [str(at) for at in range(deployment.classes)],
            "seed": self.config.seed,
            "config": dict(table),
            "engine": "flower",
            "run_id": self.run_id,
            "own": {
                "model": deployment.first_model is not None,
                "aggregation": repr(deployment.aggregator) if deployment.aggregator is not None else None,
                "represent": deployment.own_vectors,
                "settings": dict(deployment.own_settings) or None,
            },
            "initial_blake2b": hashlib.blake2b(self.initial.tobytes(), digest_size=16).hexdigest(),
            "n_numbers": self.layout.size,
        }


def ground_of(deployment: Deployment, config: Config, *, run_id: str) -> Ground:
    """Return what a run stands on, or raise if the model or the representation cannot be."""
    describing = None if deployment.own_vectors else described_by(config)
    kind: Kind = "vector" if describing is None else describing.kind
    metric = config.coordinator.metric or "l1" if describing is None else describing.metric
    initial, layout, draw_model = _first_model(deployment, config)
    has_shares = describing is not None and describing.is_label and kind == "histogram"
    n_features = deployment.classes if has_shares else None
    return Ground(
        config=config,
        initial=initial,
        layout=layout,
        expected=Expected(n_numbers=layout.size, kind=kind, n_features=n_features),
        metric=metric,
        run_id=run_id,
        draw_model=draw_model,
        describing=describing,
    )


def _first_model(deployment: Deployment, config: Config) -> tuple[Models, Layout, Callable[[int], Models] | None]:
    """Return the model that training starts from, what its numbers mean, and how another is drawn, if it can be."""
    if deployment.first_model is not None:
        model, layout = own_first_model(deployment.first_model)
        if config.serving.correction != "none":
            layout, model = layout_with_mix(layout, deployment.classes), with_even_mix(model, deployment.classes)
        return model, layout, None
    is_own = config.model.factory is not None
    request = ModelRequest(
        name=config.model.factory or config.model.name,
        input_shape=deployment.shape,
        n_classes=deployment.classes,
        trainer="torch" if is_own else config.training.trainer,
        device=config.training.device,
        hidden=config.model.hidden,
    )
    try:
        trainer = with_mix(config, trainer_for(request), deployment.classes)
    except OptionError as error:
        raise OptionError(f"model: {error}") from None
    try_model(trainer, deployment.shape, config)
    return trainer.initial_model(config.seed), trainer.layout, trainer.initial_model


def orders_of(ground: Ground, deployment: Deployment) -> OrderBook:
    """Return how the orders of a run are worded."""
    section, model = ground.config.training, ground.config.model
    settings = JobSettings(
        client="",
        classes=deployment.classes,
        model=model.factory or model.name,
        hidden=model.hidden,
        trainer="torch" if model.factory else section.trainer,
        device=section.device,
        batch_size=section.batch_size,
        learning_rate=section.learning_rate,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        prox=section.prox,
        balanced=section.balanced,
        correction=ground.config.serving.correction,
        smoothing=ground.config.serving.smoothing,
        mix_rate=ground.config.serving.mix_rate,
        moon=section.moon,
        moon_temperature=section.moon_temperature,
        rehearsal=section.rehearsal,
    )
    return OrderBook(
        run_id=ground.run_id,
        layout=ground.layout,
        seed=ground.config.seed,
        n_steps=section.local_steps,
        rate=rate_of(ground.config),
        settings=settings,
        fine_tune=ground.config.serving.fine_tune,
        keeps_aside=ground.config.trace.kept_aside > 0.0,
    )
