"""What a deployment can do of what a config may ask for; anything else is refused before a node is asked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.engine.describing import Describing, describing_of, is_own_function
from fielding.engine.plugins import kind_of
from fielding.engine.shared_models import GLOBAL, POOL
from fielding.errors import OptionError, echo

ALL_KNOWING = ("oracle",)
"""Methods that know what nobody knows in life."""


def deployed_config(table: Mapping[str, Any]) -> Config:
    """Return the config of a table, with what a deployment, which holds no samples, does where the table says nothing.

    If windows are seen with a shared model, it is then the mean of all models after a few rounds.

    Examples
    --------
    >>> deployed_config({"coordinator": {"representation": "auto"}}).coordinator.shared_model
    'global'
    >>> deployed_config({"coordinator": {"representation": "auto", "shared_model": "a.npz"}}).coordinator.shared_model
    'a.npz'
    """
    config = config_from(table)
    section = config.coordinator
    if "shared_model" in table.get("coordinator", {}) or not _needs_model(config):
        return config
    return replace(config, coordinator=replace(section, shared_model=GLOBAL))


def _needs_model(config: Config) -> bool:
    if is_own_function(config.coordinator):
        return False
    try:
        return describing_of(config.coordinator, is_own=False, seed=config.seed).needs_model
    except OptionError:  # whoever describes windows tells it, if anybody does
        return False


def check_deployable(config: Config) -> None:
    """Raise if a config asks for something that no device can be asked for.

    Raises
    ------
    OptionError
        The message names the key, and what to do.

    Examples
    --------
    >>> check_deployable(config_from({"method": {"name": "oracle"}}))
    Traceback (most recent call last):
    fielding.errors.OptionError: method.name is 'oracle', which knows the true concepts, as only ... simulator does: ...
    """
    if config.method.name in ALL_KNOWING:
        raise OptionError(
            f"method.name is {echo(config.method.name)}, which knows the true concepts, as only the simulator does: "
            "choose another method"
        )
    for key, value, usual in _without_orders(config):
        if value != usual:
            raise OptionError(f"{key} is {echo(value)}, which works in the simulator alone; leave it out")
    if (config.checkpoint.every or 1) > 1:
        raise OptionError(
            f"checkpoint.every is {echo(config.checkpoint.every)}, but a deployment commits each round, since devices "
            "do not go back by several; leave it out"
        )


def _without_orders(config: Config) -> list[tuple[str, object, object]]:
    """Return what nobody tells real devices to do: to lie, and to be away; with the value that asks for none of it."""
    return [
        ("trace.liars", config.trace.liars, 0.0),
        ("clock.availability", config.clock.availability, None),
    ]


def described_by(config: Config) -> Describing:
    """Return how devices describe their windows, and judge drift, or raise if they cannot.

    Parameters
    ----------
    config
        Of a run whose devices have no code of their own for it.
    """
    section, kind = config.coordinator, kind_of(config)
    if is_own_function(section):
        raise OptionError(
            f"coordinator.representation is {echo(section.representation)}, which works in the simulator alone; give "
            "your function to client_app(describe=...) and set own-vectors = true"
        )
    describing = describing_of(section, is_own=False, seed=config.seed)
    if describing.is_label or kind.hears == "nobody":
        return describing
    if kind.detector is not None:
        raise OptionError(
            f"method.name is {echo(config.method.name)}, which has a drift test of its own, on labels; set "
            'coordinator.representation = "label" and leave coordinator.detector out'
        )
    if describing.needs_model and section.shared_model == POOL:
        raise OptionError(
            'coordinator.shared_model is "pool", but a deployment holds no samples to train it on; set it to "global" '
            "(the mean model after coordinator.shared_rounds rounds), or to a model file on the server's machine"
        )
    return describing
