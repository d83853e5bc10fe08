"""What clients train, how they do it and what they run on, as a config says."""

from collections.abc import Callable
from typing import Any

from fielding.config.keys import Config
from fielding.engine.plugins import rate_of
from fielding.errors import OptionError
from fielding.simulation.availability import AlwaysAvailable, read_availability
from fielding.simulation.devices import devices_of
from fielding.simulation.serving import Serving
from fielding.simulation.settings import Hardware, LocalRule
from fielding.traces.pool import Pool
from fielding.traces.sources import Dealt
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import Trainer, TrainingPath


def trainer_of(
    config: Config, pool: Pool, *, model: Callable[..., Any] | None = None, path: TrainingPath | None = None
) -> Trainer:
    """Return the trainer of the model, sized by the samples.

    Parameters
    ----------
    config
        Names the model.
    pool
        The samples.
    model
        Makes a torch module instead: ``model(input_shape=..., n_classes=...)``.
    path
        How the trainer worked before, for a run that goes on.
    """
    is_own = model is not None or config.model.factory is not None
    request = ModelRequest(
        name=config.model.factory or config.model.name,
        factory=model,
        path=path,
        hidden=config.model.hidden,
        input_shape=pool.shape,
        n_classes=len(pool.classes),
        trainer="torch" if is_own else config.training.trainer,
        device=config.training.device,
    )
    try:
        return trainer_for(request)
    except OptionError as error:
        raise OptionError(f"model: {error}") from None


def serving_of(config: Config) -> Serving:
    """Return what clients do to the model that serves them."""
    section = config.serving
    try:
        return Serving(correction=section.correction, smoothing=section.smoothing, fine_tune=section.fine_tune)
    except OptionError as error:
        raise OptionError(f"serving: {error}") from None


def local_rule(config: Config) -> LocalRule:
    """Return how participants train."""
    section = config.training
    return LocalRule(
        n_steps=section.local_steps,
        batch_size=section.batch_size,
        rate=rate_of(config),
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        prox=section.prox,
        moon=section.moon,
        moon_temperature=section.moon_temperature,
        rehearsal=section.rehearsal,
        balanced=section.balanced,
    )


def hardware_of(config: Config, dealt: Dealt) -> Hardware:
    """Return what clients run on."""
    ids, section = dealt.schedule.client_ids, config.clock
    try:
        devices = devices_of(section.profile, ids, seed=config.seed)
    except OptionError as error:
        raise OptionError(f"clock.profile: {error}") from None
    return Hardware(
        devices=devices,
        availability=AlwaysAvailable()
        if section.availability is None
        else read_availability(section.availability, ids),
        overcommit=section.overcommit,
    )
