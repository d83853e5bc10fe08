"""How a device keeps its window and when it reports, as a run config says."""

from collections.abc import Mapping
from dataclasses import dataclass

from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS, DriftTest, drift_test_named
from fielding.client.representation.registry import representation_named, representation_options
from fielding.client.representation.representation import Representation
from fielding.errors import OptionError, echo

_LABEL = "label"


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
        What it makes of its label counts; None: shares.
    gap, phase
        The clock of a window strikes every ``gap`` rounds, when ``round + phase`` is a multiple, as in the simulator;
        and whenever samples come. 1: every round.
    """

    n_classes: int
    max_rounds: int
    drift_test: DriftTest
    representation: Representation | None = None
    gap: int = 1
    phase: int = 0

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
        ``classes`` (a number), ``trace.window``, ``trace.gap``, ``coordinator.representation``,
        ``coordinator.detector`` and options of the last two, as ``coordinator.alpha``. The others are not for devices.

    Examples
    --------
    >>> rule = rule_from({"classes": 10, "trace.window": 12, "coordinator.alpha": 0.01})
    >>> rule.max_rounds, rule.drift_test
    (12, Chi2(alpha=0.01, delta_min=0.1, min_fresh=10, growth=2.0))
    """
    window, gap = (_rounds(config, f"trace.{name}", default) for name, default in (("window", 100), ("gap", 1)))
    classes = _rounds(config, "classes", None)
    options = {
        key.removeprefix("coordinator."): value for key, value in config.items() if key.startswith("coordinator.")
    }
    name, detector = str(options.get("representation", _LABEL)), str(options.get("detector") or "chi2")
    if detector not in DRIFT_TESTS:
        raise OptionError(f"coordinator.detector is {echo(detector)}; devices know {', '.join(sorted(DRIFT_TESTS))}")
    representation = None
    if name != _LABEL:
        known = representation_options(name)
        representation = representation_named(name, {key: options[key] for key in known if key in options})
        if representation.effort != "none":
            raise OptionError(f"coordinator.representation is {echo(name)}; devices describe windows by labels alone")
    tests = {field for field in getattr(DRIFT_TESTS[detector], "__dataclass_fields__", {}) if field in options}
    return DeviceRule(
        n_classes=classes,
        max_rounds=-(-window // gap) * gap,  # as many intervals as the simulator shows
        drift_test=drift_test_named(detector, {field: options[field] for field in tests}),  # type: ignore[misc]
        representation=representation,
        gap=gap,
        phase=window,
    )


def _rounds(config: Mapping[str, Json], key: str, default: int | None) -> int:
    """Return a whole number of at least 1."""
    got = config.get(key, default)
    if type(got) is not int or not 1 <= got < 2**31:
        raise OptionError(f"{key} is {echo(got)}; give a whole number of at least 1 in the run config")
    return got
