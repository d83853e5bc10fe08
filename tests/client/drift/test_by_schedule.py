import numpy as np
import pytest

from fielding.client.drift import Always, Evidence, Never, Periodic
from fielding.errors import OptionError


def evidence_of(age: list[int]) -> Evidence:
    ones = np.ones((len(age), 2), dtype=np.int64)
    return Evidence(
        reported=ones,
        current=ones,
        fresh=ones,
        before=ones,
        age=np.array(age),
        arrived=np.zeros(len(age), dtype=np.int64),
        is_mixed=np.zeros(len(age), dtype=np.bool_),
    )


def test_periodic_reports_when_the_last_report_is_old_enough() -> None:
    assert Periodic(rounds=3).drifted(evidence_of([2, 3, 4])).tolist() == [False, True, True]


def test_always_and_never_keep_their_word() -> None:
    assert Always().drifted(evidence_of([0, 9])).tolist() == [True, True]
    assert Never().drifted(evidence_of([0, 9])).tolist() == [False, False]


@pytest.mark.parametrize("rounds", [0, -2, 1.5, "5", True])
def test_period_of_less_than_a_round_is_refused(rounds: object) -> None:
    with pytest.raises(OptionError, match="rounds is"):
        Periodic(rounds=rounds)  # type: ignore[arg-type]
