"""Whether a config can be run, as far as that is known before any data are read; keys without an effect are refused."""

from pathlib import Path

from fielding._extras import require
from fielding.client.privacy.counts import is_summed
from fielding.config.keys import KEYS, Config, TraceSection
from fielding.config.parts import imported_function
from fielding.config.presets import PRESETS
from fielding.engine.plugins import (
    CLIENT,
    GLOBAL,
    POOL,
    RECORD,
    kind_of,
    mistakes_in,
    parts_of,
    private_training_of,
    report_policy,
    serving_of,
    sums_of,
    trainer_of,
)
from fielding.engine.report_rule import AUTO, is_own_function, report_rule_of
from fielding.errors import FileFormatError, OptionError, echo
from fielding.inputs import located
from fielding.simulation.assembly import lie_of
from fielding.simulation.attacks import check_spoil
from fielding.simulation.hardware import devices_of, read_availability
from fielding.simulation.own_code import check_own_steps, metrics_of, own_training_of
from fielding.traces.catalog import CATALOG, Source, entry_named
from fielding.traces.pool import Pool
from fielding.traces.sources import NATURAL, check_scenario, check_times, check_window, no_times
from fielding.training.factory import TORCH_ONLY

HARMLESS = {"coordinator.shared_model": POOL}
"""Values that are no mistake where they have no effect: that of configs of older runs."""


def check_config(config: Config, *, source: Source | None = None) -> None:
    """Raise if a config names what does not exist, or what does not fit together.

    ``source`` holds samples of the caller's own, instead of what the config names.

    Raises
    ------
    InputError
        The message names the key.
    """
    trace = config.trace
    if source is not None:
        pass
    elif trace.file is None:
        if entry_named(trace.name).kind == "pool" and trace.scenario == NATURAL:
            raise OptionError(f"trace.scenario is 'natural', but {trace.name} knows no clients and times")
    elif not located(trace.file).exists():
        raise FileFormatError(f"trace.file is {echo(trace.file)}, but there is no such file; check the path")
    check_window(config.trace)
    if isinstance(trace.window, str) and _is_pool(trace, source):
        raise OptionError(no_times(trace, "a pool knows no times, a scenario deals it"))
    check_times(config.trace)
    with mistakes_in("trace"):
        check_spoil(config.trace.spoil)
    check_effects(config, source=source)
    kind_of(config)
    section = config.coordinator
    report_rule = report_rule_of(section, is_own=is_own_function(section), seed=config.seed)
    if is_own_function(section):
        imported_function(section.representation, key="coordinator.representation")
    sums_of(config)
    policy = report_policy(config, report_rule)
    lie_of(config, is_histogram=policy.kind == "histogram")
    serving_of(config)
    private_training_of(config)
    own = own_training_of(config)
    metrics_of(config)
    check_own_steps(config)
    check_scenario(config.trace)
    parts_of(config, 1, policy)
    if own is None:
        _check_model(config)
    elif config.model.factory is not None:
        imported_function(config.model.factory, key="model.factory")
    with mistakes_in("clock.profile"):  # which clients are in files of the clock is not known yet
        devices_of(config.clock.profile, (), seed=config.seed)
    if config.clock.availability is not None:
        read_availability(config.clock.availability, ())


def check_effects(config: Config, *, source: Source | None = None) -> None:
    """Raise if a key differs from its default, but what it has an effect with (``used_with``) is not there.

    Only what is certain without the data is refused: of a file of the user's own it is not known yet whether it is a
    pool. Parts that one method leaves alone (the coordinator's keys with a global model, a selection with local models)
    are not refused: one config serves many methods (docs/decisions, 19).

    ``source`` holds samples of the caller's own, instead of what the config names.

    Raises
    ------
    OptionError
        The message names the key, its value and why it has no effect.
    """
    for missing in (_missing_of_trace(config.trace, source), _missing_of_others(config, source)):
        for word, why in missing.items():
            for path, key in KEYS.items():
                if word in key.rule.used_with:
                    section = path.partition(".")[0]
                    value = getattr(getattr(config, section), key.name)
                    # A preset may set what only some of its runs need: the paper's epochs of a shared model.
                    preset = PRESETS.get(config.preset or "", {}).get(section, {}).get(key.name, key.default)
                    if value not in (key.default, preset, HARMLESS.get(path, key.default)):
                        raise OptionError(f"{path} is {echo(value)}, but it has no effect: {why}; leave it out")


def _missing_of_trace(section: TraceSection, source: Source | None) -> dict[str, str]:
    """Return what keys of the trace section need but do not have, and why not."""
    found: dict[str, str] = {}
    if source is not None or section.file is None:
        what = "samples are given" if source is not None else f"{section.name} is a known data set"
        found["file"] = f"{what}, not read from a file"
    elif (path := Path(section.file)).suffix == ".npz" or section.features or section.text:
        found["images"] = f"{path.name} is taken for numbers, not for images"
    if not section.liars:
        found["liars"] = "nobody lies, trace.liars is 0"
    is_pool = _is_pool(section, source)
    if is_pool:
        found["times"] = "a pool knows no times, a scenario deals it"
    elif section.scenario not in (None, NATURAL):
        found["intervals"] = f"scenario {section.scenario} deals the samples anew"
    elif is_pool is False and source is None:  # samples of one's own come with configs that others share
        found["scenario"] = "a natural trace is taken as it is, a scenario would deal so many"
    return found


def _is_pool(section: TraceSection, source: Source | None) -> bool | None:
    """Return whether samples come without clients and times; None if that is not known before they are read."""
    if source is not None:
        return isinstance(source, Pool)
    # An unknown name is told when it is opened.
    return entry_named(section.name).kind == "pool" if section.file is None and section.name in CATALOG else None


def _missing_of_others(config: Config, source: Source | None) -> dict[str, str]:
    """Return what keys of other sections need but do not have, and why not; only what no method could use."""
    found: dict[str, str] = {}
    if not config.training.moon:
        found["moon"] = "training.moon is 0"
    if config.serving.correction == "none":
        found["correction"] = "serving.correction is none"
    section = config.coordinator
    report_rule = report_rule_of(section, is_own=is_own_function(section), seed=config.seed)
    found |= _missing_of_privacy(config, has_sums=is_summed(report_rule.representation))
    if not report_rule.needs_model:
        found["shared model"] = "no shared model is needed to describe windows, nor to test for drift"
    shared_model, is_pool = section.shared_model, _is_pool(config.trace, source)
    if shared_model is None and (is_pool or config.trace.scenario not in (None, NATURAL)):
        shared_model = POOL
    elif shared_model is None and is_pool is False:
        shared_model = GLOBAL
    if shared_model not in (POOL, None):
        found["pool model"] = f"the shared model is {shared_model}, not trained on a pool"
    if shared_model not in (GLOBAL, None):
        found["global model"] = f"the shared model is {shared_model}, not global"
    # With auto it is not the user who asked for it.
    if config.model.factory is None and config.model.name == "softmax" and section.representation != AUTO:
        found["body"] = "model softmax is a last layer without a body"
    return found


def _missing_of_privacy(config: Config, *, has_sums: bool) -> dict[str, str]:
    """Return what keys need of privacy but do not have; ``has_sums``: reports are sums of vectors, not counts."""
    found: dict[str, str] = {}
    mode = config.privacy.mode
    if mode == RECORD:
        found["exact reports"] = "private reports go out by a schedule and are compared as their noise wants it"
        found["noised sums"] = 'privacy.mode is not "client"'
    elif mode == CLIENT:
        found["exact reports"] = "clients report nothing, they choose their cluster themselves"
        found["private reports"] = 'privacy.mode is not "record"'
    else:
        found["privacy"] = 'reports are exact, privacy.mode is neither "record" nor "client"'
    if config.privacy.training in (None, "none"):
        found["private training"] = "training is not private, privacy.training is none"
        if mode != CLIENT and not (mode == RECORD and has_sums):
            found["Gaussian noise"] = "no noise is Gaussian: training is not private, and reports are exact or counts"
    return found


def _check_model(config: Config) -> None:
    """Raise if there is no such model, trainer or device; large models are not made for that."""
    section, factory = config.training, config.model.factory
    if factory is None and (section.trainer != "torch" or config.model.name not in TORCH_ONLY):
        trainer_of(config, (1,), 2)
        return
    with mistakes_in("model"):
        require("torch")
        from fielding.training.torch_trainer import device_named

        device_named(section.device)
        if factory is not None:
            imported_function(factory, key="model.factory")
    for key, name in (("training.loss", section.loss), ("training.optimizer", section.optimizer)):
        if name is not None:
            imported_function(name, key=key)
