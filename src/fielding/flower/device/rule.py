"""What a device keeps, and when it reports: a rule that the server sends with every order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from fielding._typing import Counts, Json
from fielding.client.drift import DriftTest
from fielding.client.drift.detectors import DriftDetector
from fielding.client.report_rule import ReportRule, report_rule_from
from fielding.client.representation.label import LabelShares
from fielding.client.representation.representation import Representation
from fielding.errors import InputError

if TYPE_CHECKING:
    from fielding.client.privacy.rule import PrivacyRule


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRule:
    """What a device keeps, and when it reports.

    Parameters
    ----------
    max_rounds
        How many rounds a sample stays in the window, that of its arrival included; with ``window_ms`` about so many.
    drift_test
        When the device reports again.
    representation
        What it makes of its label counts, or with a detector of its samples; None: shares of labels.
    gap, phase
        The clock of a window ticks every ``gap`` rounds, when ``round + phase`` is a multiple, as in the simulator;
        and whenever samples come. 1: every round.
    memory_rounds
        How many rounds a sample is kept after it left the window, for methods that ask for samples of long ago.
    detector
        When the device reports again, in place of the drift test, by what models make of its samples; None: labels
        are enough.
    needs_model
        Whether it sees samples with a shared model, for what it says or for the detector.
    privacy
        What reports tell of a sample at most, and when they go out, in place of drift test and detector; None: reports
        are exact.
    window_ms
        How long a sample stays in the window after its time, milliseconds; None: that is counted in rounds.
    is_silent
        Whether the device never reports, but answers what noised sums are made of, and chooses its cluster itself.
    """

    n_classes: int
    max_rounds: int
    drift_test: DriftTest
    representation: Representation | None = None
    gap: int = 1
    phase: int = 0
    memory_rounds: int = 0
    detector: DriftDetector | None = None
    needs_model: bool = False
    privacy: "PrivacyRule | None" = None
    window_ms: int | None = None
    is_silent: bool = False

    @property
    def length(self) -> int:
        """How long a sample stays in the window, that of its own moment included: rounds, or milliseconds."""
        return self.max_rounds if self.window_ms is None else self.window_ms + 1

    @property
    def needs_errors(self) -> bool:
        """Whether it matters how the model errs that serves the device."""
        return self.privacy is None and self.detector is not None and self.detector.needs_errors

    def interval_of(self, rounds: Counts) -> Counts:
        """Return the interval of samples that came in some rounds, from 0, as the server counts them."""
        return np.maximum((rounds + self.phase) // self.gap - 1, 0)

    def is_asked(self, round_index: int, n_new: int) -> bool:
        """Return whether there can be something to report in a round in which so many samples came."""
        return n_new > 0 or not self.drift_test.is_timed or self.last_tick(round_index) == round_index

    def last_tick(self, round_index: int) -> int:
        """Return the last round up to this one in which the clock of the window ticked; may be before the start."""
        return round_index - (round_index + self.phase) % self.gap


def rule_with(rule: DeviceRule, report_rule: ReportRule) -> DeviceRule:
    """Return a rule by which windows are described, and drift is judged, as in the simulator.

    Without a representation the user's own code has one.
    """
    if report_rule.is_label or report_rule.representation is None:
        is_plain = isinstance(report_rule.representation, LabelShares)  # plain shares need no representation
        return replace(
            rule,
            drift_test=report_rule.drift_test(),
            representation=None if is_plain else report_rule.representation,
        )
    return replace(
        rule,
        drift_test=rule.drift_test,
        representation=report_rule.representation,
        detector=report_rule.drift_detector(),
        needs_model=report_rule.needs_model,
    )


SUMS: dict[str, Json] = {"mode": "client"}
"""In place of a rule of private reports: there are none, only noised sums."""


class ObserveRecord(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A :class:`DeviceRule` as it travels; ``describing`` is the record of a ``ReportRule``.

    ``privacy`` is that of a ``PrivacyRule``, or :data:`SUMS`. A device that knows of none refuses the order: it would
    report exactly. So it is with ``window_ms``.
    """

    classes: Annotated[int, Meta(ge=1, lt=2**31)]
    max_rounds: Annotated[int, Meta(ge=1, lt=2**40)]
    describing: dict[str, Any]
    gap: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    phase: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    memory_rounds: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    privacy: dict[str, Any] | None = None
    window_ms: Annotated[int, Meta(ge=1, lt=2**53)] | None = None


def rule_from(record: Mapping[str, Json]) -> DeviceRule:
    """Return the rule that came with an order, or raise if this release cannot follow it.

    Examples
    --------
    >>> from fielding.client.report_rule import label_report_rule
    >>> from fielding.client.drift import AnyChange
    >>> rule_from({"classes": 10, "max_rounds": 12, "describing": label_report_rule(AnyChange()).record()}).drift_test
    AnyChange()
    """
    try:
        found = msgspec.convert(dict(record), ObserveRecord)
    except msgspec.ValidationError as error:
        raise InputError(
            f"what to observe is not as it should be: {error}; use the same release on server and clients"
        ) from None
    report_rule = report_rule_from(found.describing)
    rule = DeviceRule(
        n_classes=found.classes,
        max_rounds=found.max_rounds,
        drift_test=report_rule_from(_LABELS).drift_test(),
        gap=found.gap,
        phase=found.phase,
        memory_rounds=found.memory_rounds,
        privacy=None if found.privacy is None or found.privacy == SUMS else _privacy_from(found.privacy),
        is_silent=found.privacy == SUMS,
        window_ms=found.window_ms,
    )
    return rule_with(rule, report_rule)


def _privacy_from(record: Mapping[str, Json]) -> "PrivacyRule":
    from fielding.client.privacy.rule import rule_from_record  # most devices need none of it

    return rule_from_record(record)


_LABELS: dict[str, Json] = {
    "representation": "label",
    "of_representation": {},
    "metric": "l1",
    "detector": "chi2",
    "options": {},
}
"""What stands in where a detector decides instead of a drift test on labels."""
