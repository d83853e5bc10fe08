"""Training and tests by the user's own code in the simulator: what can be asked of it, and where it works."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from fielding._typing import Models
from fielding.atomic import ScratchFolder, make_private
from fielding.client.report_rule import ReportRule
from fielding.config.keys import Config
from fielding.config.parts import imported_function
from fielding.engine.plugins import POOL, trainer_of
from fielding.errors import OptionError, echo
from fielding.runtime.own_code import (
    NO_CONTRAST,
    NO_EMBED,
    NO_GRADIENT,
    DeviceNode,
    Metric,
    OwnCompute,
    OwnTraining,
    Visit,
    check_metric_names,
    first_model_of,
)
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import DENSE, make_model
from fielding.training.label_mix import append_even_mix, extend_layout
from fielding.training.layout import Layout

NO_EXPERTS = "experts cannot look into code of one's own: clients are served by the model as it is"


def own_training_of(config: Config) -> OwnTraining | None:
    """Return the user's own code that a config names; None if Fielding trains.

    Raises
    ------
    OptionError
        If there is no such function, or the config asks for what code of one's own cannot do.
    """
    section, training, serving = config.own, config.training, config.serving
    names = {"train": section.train, "evaluate": section.evaluate, "embed": section.embed}
    found: dict[str, Any] = {
        name: imported_function(text, key=f"own.{name}") for name, text in names.items() if text is not None
    }
    own = OwnTraining(**found)
    own.check("own")
    if own.train is None:
        for name, value in section.options.items():
            raise OptionError(f"own.{name} is {echo(value)}, but it has no effect: there is no own.train; leave it out")
        return None
    if training.moon:
        raise OptionError(NO_CONTRAST)
    for key, is_set in (("training.balanced", training.balanced), ("serving.fine_tune", serving.fine_tune > 0)):
        if is_set:
            raise OptionError(f"{key} changes Fielding's own training, which own.train replaces; leave it out")
    needs_scores = serving.correction != "none" or training.rehearsal or config.evaluation.metrics
    if own.embed is None and needs_scores:
        raise OptionError(NO_EMBED)
    return own


def check_own_steps(config: Config) -> None:
    """Raise if a config names a loss or an optimizer of one's own beside what does without it, or knows better."""
    training, serving = config.training, config.serving
    for key, name in (("training.loss", training.loss), ("training.optimizer", training.optimizer)):
        if name is None:
            continue
        if config.own.train is not None:
            raise OptionError(f"{key} is {echo(name)}, but own.train replaces Fielding's steps; leave one of them out")
        if config.model.factory is None and (training.trainer != "torch" or config.model.name in DENSE):
            raise OptionError(
                f"{key} is {echo(name)}, but model {config.model.name} is not trained as a PyTorch module; give a "
                'module of your own, or set training.trainer = "torch" and a model such as cnn'
            )
    if training.loss is not None:
        for key, is_set in (
            ("training.moon", training.moon > 0),
            ("serving.experts", serving.experts not in ("none", ())),
            ("serving.correction", serving.correction != "none"),
        ):
            if is_set:
                raise OptionError(f"{key} builds on cross-entropy, which training.loss replaces; leave one of them out")
    if training.optimizer is not None:
        for key, value in (("momentum", training.momentum), ("weight_decay", training.weight_decay)):
            if value:
                raise OptionError(
                    f"training.{key} is {value:g}, but training.optimizer takes the steps; set it there instead"
                )


def metrics_of(config: Config) -> dict[str, Metric]:
    """Return the metrics that a config names, or raise."""
    given = config.evaluation.metrics or {}
    check_metric_names(given, "evaluation.metrics")
    return {
        name: cast(Metric, imported_function(text, key=f"evaluation.metrics.{name}")) for name, text in given.items()
    }


def check_sight(own: OwnTraining, report_rule: ReportRule | None, shared_model: str | None) -> None:
    """Raise if code of one's own cannot see samples as clients describe their windows.

    ``report_rule``: None if they report nothing, or count labels alone; ``shared_model`` as the config has it.
    """
    if report_rule is None or report_rule.representation is None:
        return
    needs_errors = not report_rule.is_label and report_rule.drift_detector().needs_errors
    if own.embed is None and (needs_errors or report_rule.needs_model):
        raise OptionError(NO_EMBED)
    if report_rule.representation.effort == "backward":
        raise OptionError(NO_GRADIENT)
    if report_rule.needs_model and shared_model == POOL:
        raise OptionError(
            'coordinator.shared_model is "pool", which Fielding trains, but own.train replaces its training; set it to '
            '"global" or to a model file'
        )


def own_first_model(config: Config, input_shape: tuple[int, ...], n_classes: int) -> tuple[Models, Layout]:
    """Return the model that the user's own code begins with, and its layout: of ``model.factory``, or a known one."""
    name = config.model.factory
    if name is None:
        trainer = trainer_of(config, input_shape, n_classes)
        return trainer.initial_model(config.seed), trainer.layout
    return first_model_of(make_model(name, input_shape=input_shape, n_classes=n_classes, seed=config.seed), name)


def own_computes(
    own: OwnTraining, config: Config, windows: SlidingWindows, folder: Path | None
) -> tuple[OwnCompute, OwnCompute]:
    """Return what looks at samples with plain models, and what trains and tests: its models may carry their label mix.

    ``folder``: for files that the user's code keeps; None for one that is gone when these are.
    """
    first, layout = own_first_model(config, windows.pool.shape, windows.n_classes)
    plain = OwnCompute(own, windows, layout, mix_rate=config.serving.mix_rate, seed=config.seed)
    if config.serving.correction != "none":
        first, layout = append_even_mix(first, windows.n_classes), extend_layout(layout, windows.n_classes)
    return plain, OwnCompute(
        own,
        windows,
        layout,
        mix_rate=config.serving.mix_rate,
        seed=config.seed,
        visit=_visits(config, folder),
        first=first,
    )


def _visits(config: Config, folder: Path | None) -> Visit:
    settings = {f"own.{name}": value for name, value in config.own.options.items()}
    kept = folder or ScratchFolder()

    @contextmanager
    def visit(client: int, round_index: int) -> Iterator[DeviceNode]:
        root = kept.path if isinstance(kept, ScratchFolder) else kept
        here = root / f"client-{client}"
        make_private(here)
        try:
            yield DeviceNode(partition=client, config=settings, folder=here, since=round_index)
        finally:
            with suppress(OSError):  # what it keeps stays
                here.rmdir()
                root.rmdir()

    return visit
