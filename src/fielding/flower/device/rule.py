"""How a device keeps its window and when it reports, as a run config says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fielding._options import options_of
from fielding._typing import Counts, Json
from fielding.client.drift import DRIFT_TESTS, Chi2, DriftTest, Never
from fielding.client.drift.sample_tests import Judge
from fielding.client.representation.label import LabelShares
from fielding.client.representation.representation import Representation
from fielding.engine.config import Config
from fielding.engine.config_reader import config_from
from fielding.engine.describing import Describing, describing_of
from fielding.errors import OptionError, echo

MEMORY = "memory-rounds"
"""Key of the run config: how many rounds devices keep samples that have left the window."""
KEEPING_SAMPLES = ("feddrift", "feddrift-eager")
"""Methods that train on samples which have left the window, unless ``method.memory`` is ``"window"``."""
USUAL_MEMORY = 1000
"""Rounds that devices keep samples for such a method, if the run config does not say."""


def memory_rounds(config: Mapping[str, Json]) -> int:
    """Return how many rounds samples are kept after they left the window.

    Examples
    --------
    >>> memory_rounds({"method.name": "fielding"}), memory_rounds({"method.name": "feddrift"})
    (0, 1000)
    >>> memory_rounds({"method.name": "feddrift", "method.memory": "window"}), memory_rounds({"memory-rounds": 20})
    (0, 20)
    """
    needs_all = config.get("method.name") in KEEPING_SAMPLES and config.get("method.memory") != "window"
    got = config.get(MEMORY, USUAL_MEMORY if needs_all else 0)
    if type(got) is not int or not 0 <= got < 2**31:
        raise OptionError(f"{MEMORY} is {echo(got)}; give a whole number of rounds from 0 in the run config")
    return got


def own_drift_test(config: Mapping[str, Json]) -> DriftTest | None:
    """Return the drift test that the method of a run brings along; None for that of the coordinator.

    Examples
    --------
    >>> own_drift_test({"method.name": "flexcfl", "method.detector": "original"})
    FlexcflOriginal(share=0.2)
    """
    name = config.get("method.name")
    if not isinstance(name, str) or ":" in name:  # a method of one's own listens to the coordinator's test
        return None
    from fielding.methods import METHODS

    detector = METHODS[name].detector if name in METHODS else None
    if detector is None:
        return None
    options = {key.removeprefix("method."): value for key, value in config.items() if key.startswith("method.")}
    test = detector(options)
    # Who reports once in its life would say nothing after its report was lost; the server asks for one alone.
    return None if isinstance(test, Never) else test


KEPT_ASIDE = "trace.kept_aside"
"""Key of the run config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRule:
    """What a device keeps, and when it reports.

    Parameters
    ----------
    n_classes
        Length of the class list.
    max_rounds
        How many rounds a sample stays in the window, that of its arrival included.
    drift_test
        When the device reports again.
    representation
        What it makes of its label counts, or with a judge of its samples; None: shares of labels.
    gap, phase
        The clock of a window strikes every ``gap`` rounds, when ``round + phase`` is a multiple, as in the simulator;
        and whenever samples come. 1: every round.
    memory_rounds
        How many rounds a sample is kept after it left the window, for methods that ask for samples of long ago.
    judge
        When the device reports again, in place of the drift test, by what models make of its samples; None: labels
        are enough.
    needs_model
        Whether it sees samples with a shared model, for what it says or for the judge.
    kept_aside
        Share of samples that it judges models by instead of training on them.
    """

    n_classes: int
    max_rounds: int
    drift_test: DriftTest
    representation: Representation | None = None
    gap: int = 1
    phase: int = 0
    memory_rounds: int = 0
    judge: Judge | None = None
    needs_model: bool = False
    kept_aside: float = 0.0

    @property
    def needs_errors(self) -> bool:
        """Whether it matters how the model errs that serves the device."""
        return self.judge is not None and self.judge.needs_errors

    def interval_of(self, rounds: Counts) -> Counts:
        """Return the interval of samples that came in some rounds, from 0, as the server counts them."""
        return np.maximum((rounds + self.phase) // self.gap - 1, 0)

    def is_asked(self, round_index: int, n_new: int) -> bool:
        """Return whether there can be something to report in a round in which so many samples came."""
        return n_new > 0 or not self.drift_test.is_timed or self.struck(round_index) == round_index

    def struck(self, round_index: int) -> int:
        """Return the last round up to this one in which the clock struck; may be before the start."""
        return round_index - (round_index + self.phase) % self.gap


def rule_from(config: Mapping[str, Json]) -> DeviceRule:
    """Return the rule that a run config describes, by the keys of Fielding's own configs.

    Parameters
    ----------
    config
        ``classes`` (a number), ``trace.window``, ``trace.gap``, ``trace.kept_aside``, ``coordinator.representation``,
        ``coordinator.detector`` and options of the last two, as ``coordinator.alpha``; ``seed``, of projections, and
        ``own-vectors``: then the app has a ``describe``, and drift is judged by labels. Others are not for devices.

    Examples
    --------
    >>> rule = rule_from({"classes": 10, "trace.window": 12, "coordinator.alpha": 0.01})
    >>> rule.max_rounds, rule.drift_test
    (12, Chi2(alpha=0.01, delta_min=0.1, min_fresh=10, growth=2.0))
    """
    window, gap = (_rounds(config, f"trace.{name}", default) for name, default in (("window", 100), ("gap", 1)))
    classes, settled = _rounds(config, "classes", None), _settled(config)
    rule = DeviceRule(
        n_classes=classes,
        max_rounds=-(-window // gap) * gap,  # as many intervals as the simulator shows
        drift_test=Chi2(),
        gap=gap,
        phase=window,
        memory_rounds=memory_rounds(config),
        kept_aside=settled.trace.kept_aside,
    )
    own_test = own_drift_test(config)
    return rule_with(rule, _describing(config, settled)) if own_test is None else replace(rule, drift_test=own_test)


def rule_with(rule: DeviceRule, describing: Describing) -> DeviceRule:
    """Return a rule by which windows are described, and drift is judged, as in the simulator.

    Parameters
    ----------
    rule
        What to keep.
    describing
        What to report, and when; without a representation the user's own code has one.
    """
    if describing.is_label or describing.representation is None:
        return replace(rule, drift_test=describing.drift_test(), representation=_counted(describing))
    return replace(
        rule,
        representation=describing.representation,
        judge=describing.judge(),
        needs_model=describing.needs_model,
    )


def _counted(describing: Describing) -> Representation | None:
    """Return what is made of label counts; None for plain shares, which need no representation."""
    return None if isinstance(describing.representation, LabelShares) else describing.representation


def _settled(config: Mapping[str, Json]) -> Config:
    """Return what a run config says to devices, with what presets and representations bring along."""
    table = {key.removeprefix("coordinator."): value for key, value in config.items() if key.startswith("coordinator.")}
    above = {key: config[key] for key in ("preset", "seed") if key in config}
    trace = {"kept_aside": config[KEPT_ASIDE]} if KEPT_ASIDE in config else {}
    return config_from({**above, "coordinator": table, "trace": trace})


def _describing(config: Mapping[str, Json], settled: Config) -> Describing:
    """Return how windows are described and drift is judged, by the coordinator's keys of a run config."""
    section = settled.coordinator
    if config.get("own-vectors") is not True:
        return describing_of(section, is_own=False, seed=settled.seed)
    detector = section.detector or "chi2"
    if detector not in DRIFT_TESTS:
        raise OptionError(
            f"coordinator.detector is {echo(detector)}; with own-vectors drift is judged by labels: take one of "
            f"{', '.join(sorted(DRIFT_TESTS))}"
        )
    known = options_of(DRIFT_TESTS[detector])
    options = {name: value for name, value in section.options.items() if name in known}
    return Describing(representation=None, metric=section.metric or "l1", detector=detector, options=options)


def _rounds(config: Mapping[str, Json], key: str, default: int | None) -> int:
    """Return a whole number of at least 1."""
    got = config.get(key, default)
    if type(got) is not int or not 1 <= got < 2**31:
        raise OptionError(f"{key} is {echo(got)}; give a whole number of at least 1 in the run config")
    return got
