"""Keys that would change nothing, refused before anything is read."""

from dataclasses import fields
from pathlib import Path

from fielding.config.keys import Config, TraceSection
from fielding.engine.describing import AUTO, describing_of, is_own_function
from fielding.engine.shared_models import GLOBAL, POOL
from fielding.errors import OptionError, echo
from fielding.traces.catalog import Source, entry_named
from fielding.traces.pool import Pool
from fielding.traces.sources import NATURAL

TIME_KEYS = ("interval", "align", "last")
COLUMN_KEYS = ("client", "time", "label", "text", "features")
SHARED_KEYS = ("coordinator.shared_model", "coordinator.shared_epochs", "coordinator.shared_rounds")


def check_effects(section: TraceSection, source: Source | None = None) -> None:
    """Raise if a key of a trace section differs from its default, but cannot change anything.

    Only what is certain without the data is refused: of a file of one's own, nobody knows yet whether it is a pool.

    Parameters
    ----------
    section
        The section.
    source
        Samples of the caller's own, instead of what the section names.

    Raises
    ------
    OptionError
        The message names the key, its value and why it has no effect.
    """
    for why, names in _without_effect(section, source).items():
        for one in fields(section):
            value = getattr(section, one.name)
            if one.name in names and value != one.default:
                raise OptionError(f"trace.{one.name} is {echo(value)}, but it has no effect: {why}; leave it out")


def check_partners(config: Config, *, has_own: bool = False) -> None:
    """Raise if a key outside the trace section was changed, but what it belongs to is switched off.

    Only keys that no method could use are refused. Parts that one method leaves alone (the coordinator's keys with a
    global model, a selection with local models) are not: one config serves many methods (docs/decisions/0019).

    Parameters
    ----------
    config
        The config.
    has_own
        Whether the caller brings a function along that describes windows.

    Raises
    ------
    OptionError
        The message names the key, its value and why it has no effect.
    """
    for why, paths in _partnerless(config, has_own=has_own).items():
        for path in paths:
            section, _, name = path.partition(".")
            value = getattr(getattr(config, section), name)
            if value != getattr(getattr(Config(), section), name):
                raise OptionError(f"{path} is {echo(value)}, but it has no effect: {why}; leave it out")


def _partnerless(config: Config, *, has_own: bool) -> dict[str, tuple[str, ...]]:
    """Return keys without what they belong to, by the reason."""
    found: dict[str, tuple[str, ...]] = {}
    if not config.training.moon:
        found["training.moon is 0"] = ("training.moon_temperature",)
    if config.serving.correction == "none":
        found["serving.correction is none"] = ("serving.smoothing", "serving.mix_rate")
    section = config.coordinator
    describing = describing_of(section, is_own=has_own or is_own_function(section), seed=config.seed)
    if not describing.needs_model:
        found["no shared model is needed to describe windows, nor to test for drift"] = SHARED_KEYS
    if section.shared_model != POOL:
        found[f"the shared model is {section.shared_model}, not trained on a pool"] = ("coordinator.shared_epochs",)
    if section.shared_model != GLOBAL:
        found[f"the shared model is {section.shared_model}, not global"] = ("coordinator.shared_rounds",)
    # With auto it is not the user who asked for it.
    if config.model.factory is None and config.model.name == "softmax" and section.representation != AUTO:
        found["model softmax is a last layer without a body"] = ("aggregation.shared_body",)
    return found


def _without_effect(section: TraceSection, source: Source | None) -> dict[str, tuple[str, ...]]:
    """Return keys without an effect, by the reason."""
    found: dict[str, tuple[str, ...]] = {}
    if source is not None or section.file is None:
        what = "samples are given" if source is not None else f"{section.name} is a known data set"
        found[f"{what}, not read from a file"] = (*COLUMN_KEYS, "image_size")
    elif (path := Path(section.file)).suffix == ".npz" or section.features or section.text:
        found[f"{path.name} is taken for numbers, not for images"] = ("image_size",)
    if not section.liars:
        found["nobody lies, trace.liars is 0"] = ("lie", "spoil")
    is_pool = _is_pool(section, source)
    if is_pool:
        found["a pool knows no times, a scenario deals it"] = TIME_KEYS
    elif section.scenario not in (None, NATURAL):
        found[f"scenario {section.scenario} deals the samples anew"] = ("interval", "align")
    elif is_pool is False and source is None:  # samples of one's own come with configs that others share
        found["a natural trace is taken as it is, a scenario would deal so many"] = ("samples",)
    return found


def _is_pool(section: TraceSection, source: Source | None) -> bool | None:
    """Return whether the samples come without clients and times; None if that is not known yet."""
    if source is not None:
        return isinstance(source, Pool)
    if section.file is not None:
        return None
    try:
        return entry_named(section.name).kind == "pool"
    except OptionError:  # whoever opens it tells
        return None
