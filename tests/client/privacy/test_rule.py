from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.rule import PrivacyRule, rule_from_record
from fielding.errors import InputError, OptionError


@given(st.integers(1, 12), st.integers(1, 60), st.lists(st.integers(0, 30), max_size=20), st.integers(0, 2**32))
def test_no_window_holds_more_reports_than_the_rule_says_however_late_a_client_is(
    reports: int, window: int, delays: list[int], seed: int
) -> None:
    rule = PrivacyRule(epsilon=Fraction(1), reports=min(reports, window), window=window)
    words, due, sent = repeatable_words(np.random.default_rng(seed)), None, []

    for delay in [0, *delays]:
        now = (0 if due is None else due) + delay
        sent.append(now)
        due = rule.next_round(now, due, words)

    for start in sent:
        assert sum(start <= at < start + window for at in sent) <= rule.reports


def test_first_reports_are_spread_over_a_period_and_later_ones_keep_their_place() -> None:
    rule = PrivacyRule(epsilon=Fraction(1), reports=2, window=20)
    seconds = {rule.next_round(0, None, repeatable_words(np.random.default_rng(seed))) for seed in range(200)}

    assert seconds == set(range(10, 20))
    assert rule.next_round(13, 13, repeatable_words(np.random.default_rng(1))) == 23
    assert rule.next_round(16, 13, repeatable_words(np.random.default_rng(1))) == 33  # 23 would be too soon after 16


@pytest.mark.parametrize(
    ("epsilon", "reports", "window", "message"),
    [
        (Fraction(0), 1, 10, "epsilon is '0'"),
        (Fraction(1001), 1, 10, "epsilon is '1001'"),
        (Fraction(1, 2**40), 1, 10, "with few digits"),
        (Fraction(1), 0, 10, "0 reports are wanted"),
        (Fraction(1), 11, 10, "give 1 to 10"),
    ],
)
def test_a_rule_without_sense_is_refused(epsilon: Fraction, reports: int, window: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PrivacyRule(epsilon=epsilon, reports=reports, window=window)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"epsilon": 1.0, "reports": 1, "window": 5},
        {"epsilon": "1/0", "reports": 1, "window": 5},
        {"epsilon": "1", "reports": True, "window": 5},
        {"epsilon": "1", "reports": 9, "window": 5},
        {"epsilon": "9" * 100, "reports": 1, "window": 5},
    ],
)
def test_a_rule_that_came_damaged_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InputError, match="use the same release"):
        rule_from_record(record)  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 60))
def test_what_the_fullest_window_can_hold_takes_all_of_epsilon_and_no_more(window: int, reports: int) -> None:
    rule = PrivacyRule(epsilon=Fraction(2), reports=min(reports, window), window=window)

    fullest = len(range(0, window, rule.period))

    assert fullest <= rule.reports
    assert fullest * rule.epsilon_of_report == 2


def test_noise_grows_with_what_a_sample_adds_and_with_the_number_of_reports() -> None:
    rule = PrivacyRule(epsilon=Fraction(1, 2), reports=4, window=40)

    assert rule.epsilon_of_report == Fraction(1, 8)
    assert rule.noise(1).scale == 16
    assert rule.noise(1000).scale == 16_000
    assert rule.noise_variance(1) == pytest.approx(2 * 16**2, rel=0.01)
    assert rule.noise_variance(1000) == pytest.approx(2 * 16**2, rel=0.01)
