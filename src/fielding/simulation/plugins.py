"""Lies that a config names; the plug-ins that also work outside a simulation are the engine's."""

from fielding.config.keys import Config
from fielding.errors import OptionError
from fielding.simulation.lying import Lie, drawn_liars
from fielding.simulation.spoiling import Spoiling
from fielding.traces.schedule import Schedule


def lie_of(config: Config, *, is_histogram: bool) -> Lie | None:
    """Return how some clients lie in their reports; None if all are honest."""
    section = config.trace
    try:
        lie = Lie(kind=section.lie, share=section.liars, is_histogram=is_histogram)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None
    return lie if section.liars else None


def spoiling_of(config: Config, schedule: Schedule) -> Spoiling | None:
    """Return what liars do to the models that they send; None if nothing."""
    section = config.trace
    try:
        spoiling = Spoiling(
            attackers=drawn_liars(schedule.client_ids, section.liars, seed=config.seed), kind=section.spoil
        )
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None
    return spoiling if section.liars and section.spoil != "none" else None
