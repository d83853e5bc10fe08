"""The rule that a server sends to its devices, as a config says."""

import msgspec

from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS, DriftTest, Never
from fielding.client.report_rule import ReportRule, label_report_rule
from fielding.config.keys import Config
from fielding.config.options import options_of
from fielding.engine.plugins import kind_of, privacy_of, sums_of
from fielding.engine.report_rule import report_rule_of
from fielding.errors import OptionError, echo
from fielding.federation.roll_call import RollCall, roll_call_with
from fielding.flower.device.rule import SUMS, ObserveRecord
from fielding.traces.histograms import WindowPlan, window_seconds
from fielding.traces.intervals import SECONDS

MEMORY = "memory-rounds"  # key of the run config: how many rounds devices keep samples that have left the window
KEEPING_SAMPLES = ("feddrift", "feddrift-eager")
"""Methods that train on samples which have left the window, unless ``method.memory`` is ``"window"``."""
USUAL_MEMORY = 1000  # rounds that devices keep samples for such a method, if the run config does not say


def device_record(config: Config, *, classes: int, own_vectors: bool = False, memory: Json = None) -> dict[str, Json]:
    """Return what devices keep, and when they report, as orders hold it.

    With ``own_vectors`` the app describes windows by code of its own; drift is judged by labels then. Samples that left
    the window are kept ``memory`` rounds; None: as long as the method needs them.
    """
    report_rule, plan = _report_rule(config, own_vectors), plan_of(config)
    privacy, is_silent = privacy_of(config, report_rule), sums_of(config) is not None
    record = ObserveRecord(
        classes=classes,
        max_rounds=plan.n_visible * plan.gap,
        window_ms=None if plan.seconds is None else round(plan.seconds * 1000),
        describing=report_rule.record(),
        privacy=SUMS if is_silent else None if privacy is None else privacy.order_record(),
        gap=config.trace.gap,
        phase=plan.lead,
        memory_rounds=memory_rounds(config, memory),
    )
    found: dict[str, Json] = msgspec.to_builtins(record)
    return found


def roll_call_of(config: Config, *, own_vectors: bool = False) -> RollCall | None:
    """Return when all devices are asked for a report; None if they report no label shares, or the test has no level."""
    report_rule = _report_rule(config, own_vectors)
    is_tested = report_rule.is_label and privacy_of(config, report_rule) is None and sums_of(config) is None
    level = getattr(report_rule.drift_test(), "level", None) if is_tested else None
    plan = plan_of(config)
    return roll_call_with(level, span=plan.n_visible * plan.gap)


def plan_of(config: Config) -> WindowPlan:
    """Return rounds between arrivals of data, and length of windows.

    Of windows by time it is known only about how many rounds they span: by ``trace.interval``, which is a day, or half
    of a shorter window.
    """
    trace = config.trace
    if not isinstance(trace.window, str):
        return WindowPlan(gap=trace.gap, window=trace.window)
    try:
        interval = trace.interval or min(SECONDS["d"], window_seconds(trace.window) / 2)
        plan = WindowPlan(gap=trace.gap, window=trace.window, interval=interval)
    except OptionError as error:
        raise OptionError(f"trace.{error}") from None
    if config.method.name in KEEPING_SAMPLES and config.method.options.get("memory") == "window":
        raise OptionError(
            f'trace.window is {echo(trace.window)}, but method.memory = "window" counts intervals; give trace.window '
            "in rounds"
        )
    return plan


def _report_rule(config: Config, own_vectors: bool) -> ReportRule:
    own_test = own_drift_test(config)
    return _describing(config, own_vectors) if own_test is None else label_report_rule(own_test)


def memory_rounds(config: Config, given: Json = None) -> int:
    """Return how many rounds devices keep samples after they left the window."""
    needs_all = config.method.name in KEEPING_SAMPLES and config.method.options.get("memory") != "window"
    got = (USUAL_MEMORY if needs_all else 0) if given is None else given
    if type(got) is not int or not 0 <= got < 2**31:
        raise OptionError(f"{MEMORY} is {echo(got)}; give a whole number of rounds from 0 in the run config")
    return got


def own_drift_test(config: Config) -> DriftTest | None:
    """Return the drift test that the method of a run brings along; None for that of the coordinator."""
    if ":" in config.method.name:  # a method of one's own listens to the coordinator's test
        return None
    detector = kind_of(config).detector
    if detector is None:
        return None
    test = detector(config.method.options)
    # A device that reports once in its life would say nothing after its report was lost; the server asks for one alone.
    return None if isinstance(test, Never) else test


def _describing(config: Config, own_vectors: bool) -> ReportRule:
    """Return how windows are described and drift is judged."""
    section = config.coordinator
    if not own_vectors:
        return report_rule_of(section, is_own=False, seed=config.seed)
    detector = section.detector or "chi2"
    if detector not in DRIFT_TESTS:
        raise OptionError(
            f"coordinator.detector is {echo(detector)}; with own-vectors drift is judged by labels: take one of "
            f"{', '.join(sorted(DRIFT_TESTS))}"
        )
    known = options_of(DRIFT_TESTS[detector])
    options = {name: value for name, value in section.options.items() if name in known}
    return ReportRule(representation=None, metric=section.metric or "l1", detector=detector, options=options)
