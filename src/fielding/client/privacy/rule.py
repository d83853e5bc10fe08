"""The rule of private reports: how much they tell of a sample at most, and when a client may report."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fielding._typing import Json
from fielding.client.privacy.counts import SENSITIVITY
from fielding.client.privacy.geometric import MOST_TERM, RandomWords, TwoSidedGeometric, uniform_below
from fielding.errors import InputError, OptionError, echo

MOST_EPSILON = 1000  # beyond, there is no privacy to speak of
REPORT = "report"
"""What a ledger calls a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRule:
    """Any ``window`` rounds in a row hold at most ``reports`` reports of a client, which tell ``epsilon`` in all.

    A sample is visible for ``window`` rounds, so that is all that is ever told of it, however long clients report.
    ``what``: of what kind the reports are; ``delta``: the probability with which they may tell more,
    ``noise_multiplier``: the standard deviation of Gaussian noise in lengths of what one sample adds, 0 without;
    ``rate``, ``n_steps``: the probability with which a sample takes part in it, and how often each report adds it;
    ``max_norm``: length that what one sample adds is cut down to.

    Examples
    --------
    >>> rule = PrivacyRule(epsilon=Fraction(1), reports=2, window=25)
    >>> rule.period, rule.epsilon_of_report, rule.noise(1).scale
    (13, Fraction(1, 2), Fraction(4, 1))
    """

    epsilon: Fraction
    reports: int
    window: int
    what: str = REPORT
    delta: Fraction = Fraction(0)
    noise_multiplier: float = 0.0
    rate: float = 1.0
    n_steps: int = 1
    max_norm: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= MOST_EPSILON or max(self.epsilon.as_integer_ratio()) * self.reports > 2**32:
            raise OptionError(
                f"epsilon is {echo(str(self.epsilon))}; give a number above 0 and up to {MOST_EPSILON} with few digits"
            )
        if not 1 <= self.reports <= self.window < MOST_TERM:
            raise OptionError(
                f"{self.reports} reports are wanted in a window of {self.window} rounds; give 1 to {self.window}"
            )

    @property
    def budget(self) -> Fraction:
        """What a client may tell of a sample in all."""
        return self.epsilon

    @property
    def period(self) -> int:
        """Rounds between two reports of a client at least."""
        return -(-self.window // self.reports)

    @property
    def epsilon_of_report(self) -> Fraction:
        """What one report tells of a sample at most."""
        return self.epsilon / self.reports

    def noise(self, unit: int) -> TwoSidedGeometric:
        """Return the noise on counts to which one sample adds ``unit`` at most."""
        return TwoSidedGeometric(scale=SENSITIVITY * unit / self.epsilon_of_report)

    def noise_variance(self, unit: int) -> float:
        """Return the variance of the noise on counts of samples."""
        return self.noise(unit).variance / unit**2

    def next_round(self, round_index: int, due: int | None, words: RandomWords) -> int:
        """Return when a client that reports in a round may report next: a period later, or more.

        ``due``: when this report was; None for the first one, after which the client waits up to a period more, by
        chance, so that not all clients report in the same rounds. Whatever the data are, the answer is the same.
        """
        if due is None:
            bound = np.array([self.period], dtype=np.uint64)
            return round_index + self.period + int(uniform_below(bound, words)[0])
        late = -(-(round_index - due) // self.period)
        return due + (late + 1) * self.period

    def record(self) -> dict[str, Json]:
        """Return the rule as files and messages hold it."""
        return {
            "epsilon": str(self.epsilon),
            "reports": self.reports,
            "window": self.window,
            **({"what": self.what} if self.what != REPORT else {}),
            **(
                {
                    "delta": str(self.delta),
                    "noise": self.noise_multiplier,
                    "rate": self.rate,
                    "steps": self.n_steps,
                    "norm": self.max_norm,
                }
                if self.delta
                else {}
            ),
        }


def rule_from_record(record: Mapping[str, Json]) -> PrivacyRule:
    """Return the rule that :meth:`PrivacyRule.record` gave, or raise.

    Examples
    --------
    >>> rule = PrivacyRule(epsilon=Fraction(1, 2), reports=1, window=10)
    >>> rule_from_record(rule.record()) == rule
    True
    """
    epsilon, reports, window = (record.get(name) for name in ("epsilon", "reports", "window"))
    try:
        if not isinstance(epsilon, str) or len(epsilon) > 40 or type(reports) is not int or type(window) is not int:
            raise ValueError
        return PrivacyRule(epsilon=Fraction(epsilon), reports=reports, window=window)
    except (ValueError, ZeroDivisionError):
        raise InputError(
            f"the rule of private reports is {echo(dict(record))}; use the same release on server and clients"
        ) from None
