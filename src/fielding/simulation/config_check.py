"""Whether a config can be run, as far as that is known before any data are read."""

from pathlib import Path

from fielding.engine.config import Config, TraceSection
from fielding.errors import FileFormatError, echo
from fielding.simulation.describing import describing_of, is_own_function
from fielding.simulation.equipment import serving_of
from fielding.simulation.plugins import kind_of, lie_of, parts_of, policy_of
from fielding.simulation.sources import check_scenario
from fielding.simulation.unused_keys import check_effects, check_partners
from fielding.traces.catalog import entry_named


def check_config(config: Config) -> None:
    """Raise if a config names what does not exist, or what does not fit together.

    Raises
    ------
    InputError
        The message names the key.
    """
    _check_source(config.trace)
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


def _check_source(section: TraceSection) -> None:
    """Raise if there is no such file, or no such data set."""
    if section.file is None:
        entry_named(section.name)
    elif not Path(section.file).exists():
        raise FileFormatError(f"trace.file is {echo(section.file)}, but there is no such file; check the path")
