"""Whether a config can be run, as far as that is known before any data are read."""

from pathlib import Path

import numpy as np

from fielding._extras import require
from fielding._imported import imported_function
from fielding.engine.config import Config, TraceSection
from fielding.engine.describing import describing_of, is_own_function
from fielding.engine.plugins import kind_of, parts_of, policy_of, serving_of
from fielding.errors import FileFormatError, InputError, OptionError, echo
from fielding.simulation.assembly import lie_of, trainer_of
from fielding.simulation.attacks import check_spoil
from fielding.simulation.hardware import devices_of, read_availability
from fielding.simulation.sources import NATURAL, check_scenario
from fielding.simulation.unused_keys import check_effects, check_partners
from fielding.traces.catalog import entry_named
from fielding.traces.intervals import checked_align, parse_interval, parse_span
from fielding.traces.pool import Pool
from fielding.training.factory import TORCH_ONLY


def check_config(config: Config) -> None:
    """Raise if a config names what does not exist, or what does not fit together.

    Raises
    ------
    InputError
        The message names the key.
    """
    _check_source(config.trace)
    _check_times(config.trace)
    check_effects(config.trace)
    check_partners(config)
    kind_of(config)
    section = config.coordinator
    describing = describing_of(section, is_own=is_own_function(section), seed=config.seed)
    lie_of(config, is_histogram=describing.kind == "histogram")
    policy = policy_of(config, kind=describing.kind, metric=describing.metric)
    serving_of(config)
    check_scenario(config.trace)
    parts_of(config, 1, policy)
    _check_model(config)
    _check_clock(config)


def _check_source(section: TraceSection) -> None:
    """Raise if there is no such file or data set, or it is to be taken with the times that it does not have."""
    if section.file is not None:
        if not Path(section.file).expanduser().exists():
            raise FileFormatError(f"trace.file is {echo(section.file)}, but there is no such file; check the path")
    elif entry_named(section.name).kind == "pool" and section.scenario == NATURAL:
        raise OptionError(f"trace.scenario is 'natural', but {section.name} knows no clients and times")


def _check_times(section: TraceSection) -> None:
    """Raise if the times of a trace section make no sense."""
    if section.window < section.gap:
        raise OptionError(f"trace.window is {section.window}; it must be at least trace.gap, which is {section.gap}")
    for name, check in (("interval", parse_interval), ("align", checked_align), ("last", parse_span)):
        value = getattr(section, name)
        try:
            if value is not None:
                check(value)
        except InputError as error:
            raise OptionError(f"trace.{name}: {error}") from None
    try:
        check_spoil(section.spoil)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None


def _check_model(config: Config) -> None:
    """Raise if there is no such model, trainer or device; large models are not made for that."""
    section, factory = config.training, config.model.factory
    if factory is None and (section.trainer != "torch" or config.model.name not in TORCH_ONLY):
        stand_in = Pool(x=np.zeros((1, 1), dtype=np.float32), y=np.zeros(1, dtype=np.int32), classes=("a", "b"))
        trainer_of(config, stand_in)
        return
    try:
        require("torch")
        from fielding.training.torch_threads import device_named

        device_named(section.device)
        if factory is not None:
            imported_function(factory, key="model.factory")
    except OptionError as error:
        raise OptionError(f"model: {error}") from None


def _check_clock(config: Config) -> None:
    """Raise if there is no such profile, or a file of the clock cannot be read; who is in it is not known yet."""
    try:
        devices_of(config.clock.profile, (), seed=config.seed)
    except OptionError as error:
        raise OptionError(f"clock.profile: {error}") from None
    if config.clock.availability is not None:
        read_availability(config.clock.availability, ())
