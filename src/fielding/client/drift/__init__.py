"""Stage 3: whether a client's data moved since its last report.

To add a test, write a frozen dataclass with the verb of :class:`DriftTest` and name it in ``fielding.config.parts``;
``tests/conformance/test_drift_tests.py`` then checks it with all the others.
"""

from collections.abc import Mapping
from inspect import signature

from fielding.client.drift.drift_test import DriftTest, Evidence
from fielding.client.drift.label_tests import AlwaysReport as Always
from fielding.client.drift.label_tests import AnyChange, Chi2, FlexcflOriginal, Periodic, Threshold
from fielding.client.drift.label_tests import NeverReport as Never
from fielding.config.parts import Family
from fielding.errors import unknown_name

__all__ = [
    "DRIFT_TESTS",
    "Always",
    "AnyChange",
    "Chi2",
    "DriftTest",
    "Evidence",
    "FlexcflOriginal",
    "Never",
    "Periodic",
    "Threshold",
    "drift_test_named",
]

DRIFT_TESTS: Family[type[DriftTest]] = Family("drift test")
"""Every drift test, by the name that configs and commands use."""


def drift_test_named(name: str, options: Mapping[str, float] | None = None) -> DriftTest:
    """Return the drift test of this name.

    Examples
    --------
    >>> drift_test_named("chi2", {"alpha": 0.01})
    Chi2(alpha=0.01, delta_min=0.0, min_fresh=10, growth=2.0)
    """
    if name not in DRIFT_TESTS:
        raise unknown_name("drift test", name, DRIFT_TESTS)
    family = DRIFT_TESTS[name]
    known = signature(family).parameters
    for option in options or {}:
        if option not in known:
            raise unknown_name(f"option of drift test {name!r}", option, known)
    return family(**(options or {}))
