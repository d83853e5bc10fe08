"""The rule of private reports: how much they tell of a sample at most, and when a client may report."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

import numpy as np

from fielding._typing import Counts, Json
from fielding.client.privacy.counts import SENSITIVITY, STEPS
from fielding.client.privacy.gaussian import MOST_SIGMA, DiscreteGaussian
from fielding.client.privacy.geometric import MOST_TERM, RandomWords, TwoSidedGeometric, uniform_below
from fielding.errors import InputError, OptionError, echo

MOST_EPSILON = 1000  # beyond, there is no privacy to speak of
LEAST_OF_REPORT = Fraction(1, 10**6)  # with less for a report, it would be noise
REPORT = "report"
"""What a ledger calls a report."""
GAUSSIAN = "gaussian"
"""Under which orders hold a rule of sums with Gaussian noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRule:
    """Any ``window`` rounds in a row hold at most ``reports`` reports of a client, which tell ``epsilon`` in all.

    A sample is visible for ``window`` rounds, so that is all that is ever told of it, however long clients report.
    ``what``: of what kind the reports are; ``delta``: the probability with which they may tell more,
    ``noise_multiplier``: the standard deviation of Gaussian noise in lengths that a sample changes at most, 0 without;
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
        if self.what == REPORT and self.epsilon_of_report < LEAST_OF_REPORT:
            raise OptionError(
                f"epsilon is {float(self.epsilon):g}, which leaves next to nothing for each of {self.most_reports} "
                "reports; give a larger epsilon"
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
    def most_reports(self) -> int:
        """Reports that a window can hold, ``period`` rounds apart: fewer than ``reports`` where that divides badly.

        Examples
        --------
        >>> PrivacyRule(epsilon=Fraction(1), reports=5, window=6).most_reports
        3
        """
        return -(-self.window // self.period) if self.what == REPORT else self.reports

    @property
    def epsilon_of_report(self) -> Fraction:
        """What one report tells of a sample at most."""
        return self.epsilon / self.most_reports

    def noise(self, unit: int) -> TwoSidedGeometric:
        """Return the noise on counts to which one sample adds ``unit`` at most."""
        return TwoSidedGeometric(scale=SENSITIVITY * unit / self.epsilon_of_report)

    def gaussian_noise(self, unit: int) -> DiscreteGaussian:
        """Return the noise on sums to which one sample adds a vector of length ``unit`` at most, rounded up."""
        return DiscreteGaussian(sigma=ceil(SENSITIVITY * unit * self.noise_multiplier))

    def draw_noise(self, n_numbers: int, unit: int, words: RandomWords) -> Counts:
        """Return the noise of one report, whole numbers, shape ``(n_numbers,)``."""
        noise = self.gaussian_noise(unit) if self.noise_multiplier else self.noise(unit)
        return noise.draw(n_numbers, words)

    def noise_variance(self, unit: int) -> float:
        """Return the variance of the noise on counts of samples, or on sums in lengths of the longest vector."""
        noise = self.gaussian_noise(unit) if self.noise_multiplier else self.noise(unit)
        return noise.variance / unit**2

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
                    **({"grid": STEPS} if self.what == REPORT else {}),
                }
                if self.delta
                else {}
            ),
        }

    def order_record(self) -> dict[str, Json]:
        """Return the rule as orders hold it: devices of releases that know only counts must refuse Gaussian noise."""
        return {GAUSSIAN: self.record()} if self.noise_multiplier else self.record()


def gaussian_rule(
    *, epsilon: Fraction, delta: Fraction, reports: int, window: int, max_norm: float = 1.0
) -> PrivacyRule:
    """Return a rule of sums with the least Gaussian noise that the accountant allows.

    Examples
    --------
    >>> rule = gaussian_rule(epsilon=Fraction(2), delta=Fraction(1, 10**5), reports=1, window=10)
    >>> rule.noise_multiplier, rule.gaussian_noise(STEPS).sigma / (SENSITIVITY * STEPS) >= rule.noise_multiplier
    (2.15, True)
    """
    from fielding.client.privacy.accountant import noise_for  # most devices need none of it

    rule = PrivacyRule(epsilon=epsilon, reports=reports, window=window, delta=delta, max_norm=max_norm)
    noise = noise_for(float(epsilon), float(delta), rate=1.0, n_steps=rule.most_reports)
    if SENSITIVITY * STEPS * noise > MOST_SIGMA:
        raise OptionError(
            f"epsilon {float(epsilon):g} with delta {float(delta):g} leaves next to nothing for each of {reports} "
            "reports; give a larger epsilon"
        )
    return replace(rule, noise_multiplier=noise)


def rule_from_record(record: Mapping[str, Json]) -> PrivacyRule:
    """Return the rule that :meth:`PrivacyRule.order_record` gave, or raise.

    The noise of sums is not taken from it but found anew: one that is too small is refused.

    Examples
    --------
    >>> rule = PrivacyRule(epsilon=Fraction(1, 2), reports=1, window=10)
    >>> rule_from_record(rule.order_record()) == rule
    True
    """
    gaussian = record.get(GAUSSIAN)
    found = gaussian if isinstance(gaussian, Mapping) else record
    reports, window, max_norm = (found.get(name) for name in ("reports", "window", "norm"))
    try:
        if type(reports) is not int or type(window) is not int:
            raise ValueError
        epsilon = read_fraction(found.get("epsilon"))
        if found is record:
            return PrivacyRule(epsilon=epsilon, reports=reports, window=window)
        if not isinstance(max_norm, float) or not 0.0 < max_norm < inf:
            raise ValueError
        delta = read_fraction(found.get("delta"))
        rule = gaussian_rule(epsilon=epsilon, delta=delta, reports=reports, window=window, max_norm=max_norm)
        if rule.record() != dict(found):
            raise ValueError
        return rule
    except (ValueError, ZeroDivisionError):
        raise InputError(
            f"the rule of private reports is {echo(dict(record))}; use the same release on server and clients"
        ) from None


def read_fraction(text: Json) -> Fraction:
    """Return a fraction of whole numbers, or raise ValueError; others could take any time to read."""
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,60}(/\d{1,60})?", text):
        raise ValueError
    return Fraction(text)
