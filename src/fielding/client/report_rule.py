"""What clients report, and when: a representation of the window and a drift test, by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS, DriftTest, drift_test_named
from fielding.client.drift.detectors import DriftDetector, KindDetector, SampleDetector, VectorDetector
from fielding.client.drift.sample_tests import OF_ERRORS, SAMPLE_TESTS, sample_test_named
from fielding.client.representation.registry import representation_named
from fielding.client.representation.representation import Representation
from fielding.config.options import options_of
from fielding.config.parts import BY_KIND
from fielding.distance import Kind, metric_named
from fielding.errors import InputError, echo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRule:
    """What clients report, and when.

    ``name`` and ``of_representation``: what a representation was made of, for :meth:`record`. A representation of None
    is a function of the user's own, a name of None one that was made otherwise.
    """

    representation: Representation | None
    metric: str
    detector: str
    options: Mapping[str, Json]
    name: str | None = None
    of_representation: Mapping[str, Json] = field(default_factory=dict)

    def record(self) -> dict[str, Json]:
        """Return what a device needs to do the same, for :func:`report_rule_from`."""
        options = {"of_representation": dict(self.of_representation), "options": dict(self.options)}
        given = {name: values for name, values in options.items() if values}  # it goes with every order
        return {"representation": self.name, "metric": self.metric, "detector": self.detector, **given}

    @property
    def kind(self) -> Kind:
        """What reports are."""
        return "vector" if self.representation is None else self.representation.kind

    @property
    def is_label(self) -> bool:
        """Whether counts of labels are all that clients need: for what they say and for when they say it."""
        is_counted = self.representation is not None and self.representation.effort == "none"
        return is_counted and self.detector in DRIFT_TESTS

    @property
    def needs_model(self) -> bool:
        """Whether clients see their samples with a shared model."""
        sees = self.representation is not None and self.representation.effort != "none"
        return sees or self.detector in set(SAMPLE_TESTS) - set(OF_ERRORS) or self.detector == BY_KIND

    def drift_test(self) -> DriftTest:
        """Return the test on what is reported."""
        return drift_test_named(self.detector, self.options)  # type: ignore[arg-type]

    def drift_detector(self) -> DriftDetector:
        """Return the test on what clients see."""
        if self.detector == BY_KIND:
            return KindDetector(**self.options)  # type: ignore[arg-type]
        if self.detector in DRIFT_TESTS:
            return VectorDetector(drift_test=self.drift_test(), metric=metric_named(self.metric))
        own = options_of(SAMPLE_TESTS[self.detector])
        rule = {name: value for name, value in self.options.items() if name not in own}
        test = sample_test_named(self.detector, {name: self.options[name] for name in self.options if name in own})
        return SampleDetector(test=test, needs_errors=self.detector in OF_ERRORS, **rule)  # type: ignore[arg-type]


def report_rule_from(record: Mapping[str, Json]) -> ReportRule:
    """Return what :meth:`ReportRule.record` gave, or raise if a name or an option is unknown here."""
    name = record.get("representation")
    own, options = (record.get(key, {}) for key in ("of_representation", "options"))
    if not isinstance(own, dict) or not isinstance(options, dict) or not isinstance(name, (str, type(None))):
        raise InputError(f"how to describe windows is {echo(dict(record))}; use the same release on server and clients")
    return ReportRule(
        representation=None if name is None else representation_named(name, own),
        metric=str(record.get("metric")),
        detector=str(record.get("detector")),
        options=options,
        name=name,
        of_representation=own,
    )


def label_report_rule(test: DriftTest) -> ReportRule:
    """Return reports of label shares by a drift test on label counts."""
    names = [name for name in DRIFT_TESTS if type(test) is DRIFT_TESTS[name]]
    return ReportRule(
        representation=representation_named("label"),
        metric="l1",
        detector=names[0],
        options=asdict(test),  # type: ignore[call-overload]
        name="label",
    )
