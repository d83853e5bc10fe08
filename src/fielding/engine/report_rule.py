"""How clients describe their windows and when they report, as a config says."""

from collections.abc import Mapping

from fielding._extras import require
from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS
from fielding.client.drift.detectors import KindDetector, SampleDetector, check_vector_test
from fielding.client.drift.sample_tests import RIVER_TESTS, SAMPLE_TESTS
from fielding.client.report_rule import ReportRule
from fielding.client.representation.registry import REPRESENTATIONS, representation_named, representation_options
from fielding.config.keys import KEYS, CoordinatorSection
from fielding.config.options import options_of
from fielding.config.parts import BY_KIND
from fielding.config.reader import unknown_key
from fielding.engine.plugins import mistakes_in
from fielding.errors import OptionError, unknown_name

LABEL = "label"
AUTO = "auto"
AUTO_REPRESENTATION = "soft-confusion"
"""What ``auto`` clusters by: it sees looks and meanings, but not the label mix, which is left to the correction."""
NATURAL_TESTS = {
    "label": "chi2",
    "label-smoothed": "chi2",
    "label-sqrt": "chi2",
    "predictions": "bbsd",
    "confusion": "confusion",
    "soft-confusion": "confusion",
    "embedding": "ks",
    "residual-embedding": "class-shift",
    "class-means": "class-shift",
}
"""The test that suits a representation; joint for the others, and for combinations: they see labels and inputs."""


def report_rule_of(section: CoordinatorSection, *, is_own: bool, seed: int) -> ReportRule:
    """Return how clients describe their windows, or that a function of the user's own does.

    ``seed`` is that of projections, unless the section has one.

    Raises
    ------
    OptionError
        If a name or an option is unknown, or test and representation do not fit.
    """
    text = AUTO_REPRESENTATION if section.representation == AUTO else section.representation
    with mistakes_in("coordinator.representation"):
        if not is_own and "+" not in text and text.rpartition("*")[2].strip() not in REPRESENTATIONS:
            raise unknown_name("representation", text, (AUTO, *REPRESENTATIONS))
        of_vector = {} if is_own else representation_options(text)
    natural = BY_KIND if section.representation == AUTO else NATURAL_TESTS.get(section.representation, "joint")
    detector = section.detector or ("any-change" if is_own else natural)
    of_test = _test_options(detector)
    _check_known(section, {**of_vector, **of_test}, detector)
    given = {name: value for name, value in section.options.items() if name in of_vector}
    if "seed" in of_vector:
        given.setdefault("seed", seed)
    with mistakes_in("coordinator"):
        representation = None if is_own else representation_named(text, given)
    rule = ReportRule(
        representation=representation,
        metric=section.metric or ("l1" if representation is None else representation.metric),
        detector=detector,
        options={name: value for name, value in section.options.items() if name in of_test},
        name=None if is_own else text,
        of_representation=given,
    )
    # An option of the drift test may have no sense, or it cannot judge what is reported.
    is_plain = rule.detector in DRIFT_TESTS
    with mistakes_in("coordinator"):
        rule.drift_test() if is_plain else rule.drift_detector()
    with mistakes_in("coordinator.detector"):
        if {rule.detector, rule.options.get("errors")} & {*RIVER_TESTS}:
            require("drift")  # or its lack would show when the first client is in doubt
        if is_plain and not rule.is_label:
            check_vector_test(rule.drift_test())
    return rule


def is_own_function(section: CoordinatorSection) -> bool:
    """Return whether a representation is a function of the user's own, as ``my_module:describe``."""
    return ":" in section.representation


def _test_options(detector: str) -> dict[str, Json]:
    """Return the options of a drift test; those on samples share a few."""
    if detector == BY_KIND:
        return options_of(KindDetector)
    if detector in DRIFT_TESTS:
        return options_of(DRIFT_TESTS[detector])
    shared = options_of(SampleDetector, hidden=("test", "needs_errors"))
    return {**shared, **options_of(SAMPLE_TESTS[detector])}


def _check_known(section: CoordinatorSection, known: Mapping[str, Json], detector: str) -> None:
    """Raise if an option belongs to nothing, or to another test or representation than the chosen ones."""
    for option in section.options:
        if option in known:
            continue
        anywhere = {name for test in (*DRIFT_TESTS, *SAMPLE_TESTS, BY_KIND) for name in _test_options(test)}
        anywhere |= {name for text in REPRESENTATIONS for name in representation_options(text)}
        if option not in anywhere:
            keys = [path for path in KEYS if path.startswith("coordinator.")]
            raise unknown_key(f"coordinator.{option}", [*keys, *(f"coordinator.{name}" for name in anywhere)])
        raise OptionError(
            f"coordinator.{option} has no effect on representation {section.representation!r} "
            f"with drift test {detector!r}; leave it out"
        )
