"""What a deployment can do of what a config may ask for; anything else is refused before a node is asked."""

from fielding.client.representation.registry import representation_named, representation_options
from fielding.distance import Kind
from fielding.engine.config import Config
from fielding.errors import OptionError, echo

METHODS_HERE = ("fielding", "moves", "always", "static", "selected", "global", "flash")
"""Methods that need no more of clients than training and reports, and can take in clients that join."""
UPLOADING = ("pyramidfl",)
"""Selections whose clients send a part of their updates."""


def check_deployable(config: Config) -> None:
    """Raise if a config asks for something that no device can be asked for.

    Raises
    ------
    OptionError
        The message names the key, and what to do.

    Examples
    --------
    >>> from fielding.engine.config_reader import config_from
    >>> check_deployable(config_from({"method": {"name": "ifca"}}))
    Traceback (most recent call last):
    fielding.errors.OptionError: method.name is 'ifca', which asks more of clients than ... a deployment can: use ...
    """
    method, options = config.method.name, config.method.options
    if method not in METHODS_HERE:
        raise OptionError(
            f"method.name is {echo(method)}, which asks more of clients than training and reports, and so more than a "
            f"deployment can: use {', '.join(METHODS_HERE)}, or the simulator"
        )
    for name in ("guard", "reuse"):
        if options.get(name):
            raise OptionError(
                f"method.{name} is {echo(options[name])}; devices cannot be asked for losses, leave it out"
            )
    if config.selection.name in UPLOADING:
        raise OptionError(
            f"selection.name is {echo(config.selection.name)}, whose clients send parts of updates; choose another one"
        )
    for key, value, usual in _without_orders(config):
        if value != usual:
            raise OptionError(f"{key} is {echo(value)}, which works in the simulator alone; leave it out")


def _without_orders(config: Config) -> list[tuple[str, object, object]]:
    """Return the keys that would change what devices do, but that no order tells them; with the value that is none."""
    return [
        ("training.moon", config.training.moon, 0.0),
        ("training.rehearsal", config.training.rehearsal, False),
        ("serving.correction", config.serving.correction, "none"),
        ("serving.fine_tune", config.serving.fine_tune, 0),
        ("aggregation.shared_body", config.aggregation.shared_body, False),
        ("trace.liars", config.trace.liars, 0.0),
        ("trace.kept_aside", config.trace.kept_aside, 0.0),
        ("clock.availability", config.clock.availability, None),
    ]


def described_as(config: Config, *, own_vectors: bool) -> tuple[Kind, str]:
    """Return what reports are, and the name of the distance between them.

    Parameters
    ----------
    config
        Names a representation of labels.
    own_vectors
        Whether devices describe their windows by code of the user's own instead.
    """
    section = config.coordinator
    if own_vectors:
        return "vector", section.metric or "l1"
    try:
        known = representation_options(section.representation)
        given = {name: value for name, value in section.options.items() if name in known}
        representation = representation_named(section.representation, given)
    except OptionError as error:
        raise OptionError(f"coordinator.representation: {error}") from None
    if representation.effort != "none":
        raise OptionError(
            f"coordinator.representation is {echo(section.representation)}; devices describe windows by labels alone, "
            "or by code of your own (client_app(describe=...) and own-vectors = true)"
        )
    return representation.kind, section.metric or representation.metric
