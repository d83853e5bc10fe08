from collections.abc import Sequence

import numpy as np
import pytest

from fielding.reporting.numbers.run_metrics import Response, mean_response, responses


def respond(
    accuracies: Sequence[float], drifts: Sequence[float], *, every: int = 1, longest: float = np.inf
) -> list[Response]:
    rounds = np.arange(len(accuracies), dtype=np.float64) * every
    return responses(rounds, np.array(accuracies), drifts, n_rounds=len(accuracies) * every, longest=longest)


def test_a_fall_and_its_recovery_are_measured_from_the_drift_on() -> None:
    (found,) = respond([0.8, 0.8, 0.4, 0.75, 0.78, 0.8], [2.0])

    assert found.before == pytest.approx(0.8)
    assert found.dip == pytest.approx(0.4)
    assert found.recovery_rounds == 2.0  # 95 % of 0.8 is 0.76
    assert found.loss_area == pytest.approx(0.4 + 0.05 + 0.02)


def test_only_ten_rounds_before_the_drift_count() -> None:
    (found,) = respond([*[0.0] * 5, *[0.8] * 10, 0.4], [15.0])

    assert found.before == pytest.approx(0.8)


def test_the_last_evaluation_stands_in_if_the_ten_rounds_have_none() -> None:
    (found,) = respond([0.2, 0.8, 0.5], [39.0], every=20)

    assert found.before == pytest.approx(0.8)
    # The evaluation of round 40 stands for the 20 rounds to the end.
    assert found.loss_area == pytest.approx(20 * 0.3)


def test_who_never_falls_below_has_recovered_at_once() -> None:
    (found,) = respond([0.8, 0.79, 0.9], [1.0])

    assert found.recovery_rounds == 0.0
    assert found.dip == pytest.approx(0.01)


def test_accuracy_that_only_rises_has_a_negative_dip_and_no_loss() -> None:
    (found,) = respond([0.5, 0.6, 0.7], [1.0])

    assert found.dip == pytest.approx(-0.1)
    assert found.loss_area == 0.0


def test_a_response_ends_at_the_next_drift() -> None:
    first, second = respond([0.8, 0.4, 0.5, 0.2, 0.8], [1.0, 3.0])

    assert first.dip == pytest.approx(0.4)
    assert first.recovery_rounds is None
    assert second.before == pytest.approx((0.8 + 0.4 + 0.5) / 3)
    assert second.recovery_rounds == 1.0


def test_a_response_may_be_cut_short() -> None:
    (found,) = respond([0.8, 0.7, 0.1, 0.8], [1.0], longest=1)

    assert found.dip == pytest.approx(0.1)
    assert found.loss_area == pytest.approx(0.1)


def test_a_drift_before_the_first_or_after_the_last_evaluation_says_nothing() -> None:
    assert respond([0.8, 0.7], [0.0]) == respond([0.8, 0.7], [2.0]) == []
    assert set(mean_response([], "drift_").values()) == {None}


def test_means_tell_how_many_drifts_were_not_recovered_from() -> None:
    found = mean_response(respond([0.8, 0.4, 0.5, 0.2, 0.8], [1.0, 3.0]), "drift_")

    assert found["drift_unrecovered"] == 0.5
    assert found["drift_recovery_rounds"] == 1.0
    assert found["drift_dip_max"] == pytest.approx(0.4)
