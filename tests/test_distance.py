import numpy as np
import pytest

from fielding.distance import METRICS, TIE, Metric, metric_named, unit_rows
from fielding.errors import OptionError

LEFT = np.array([[1.0, 0.0]])
HALF = np.array([[0.5, 0.5]])
RIGHT = np.array([[0.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "to_half", "to_right"),
    [
        ("l1", 1.0, 2.0),
        ("l2", np.sqrt(0.5), np.sqrt(2.0)),
        ("hellinger", np.sqrt(1.0 - np.sqrt(0.5)), 1.0),
        # Divergence to the mean (3/4, 1/4): 1.5 - 0.75 * log2(3) + 0.5 * (0.5 * log2(3) - 1), at its root.
        ("js", np.sqrt(1.0 - 0.75 * np.log2(3.0) + 0.5), 1.0),
        ("cosine", 1.0 - np.sqrt(0.5), 1.0),
    ],
)
def test_distances_known_by_hand(name: str, to_half: float, to_right: float) -> None:
    found = metric_named(name).between(LEFT, np.vstack([LEFT, HALF, RIGHT]))

    assert found == pytest.approx(np.array([[0.0, to_half, to_right]]), abs=1e-12)


def test_the_names_are_those_of_configs() -> None:
    assert sorted(METRICS) == ["cosine", "hellinger", "js", "l1", "l2"]
    assert [metric.name for metric in METRICS.values()] == list(METRICS)


def test_an_unknown_metric_names_the_known_ones() -> None:
    with pytest.raises(
        OptionError, match=r"^unknown metric 'l11'; did you mean 'l1'\? Known: cosine, hellinger, js, l1, l2$"
    ):
        metric_named("l11")


def test_every_metric_has_a_line_for_people() -> None:
    assert all(metric.summary and "\n" not in metric.summary for metric in METRICS.values())


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_the_diameter_of_histograms_is_finite_and_that_of_vectors_is_not(name: str) -> None:
    metric = metric_named(name)

    assert metric.diameter("histogram") <= 2.0
    assert metric.diameter("vector") == np.inf


def test_opposite_vectors_are_as_far_apart_as_cosine_allows() -> None:
    cosine = metric_named("cosine")

    assert cosine.between(LEFT, -LEFT).tolist() == [[cosine.diameter("vector")]]


def test_cosine_claims_no_triangle_for_it_has_none() -> None:
    cosine = metric_named("cosine")
    direct, detour = cosine.between(LEFT, RIGHT), cosine.between(LEFT, HALF) + cosine.between(HALF, RIGHT)

    assert not cosine.has_triangle
    assert direct > detour


def test_a_tie_is_far_below_any_share_of_a_window() -> None:
    assert 1e-12 < TIE < 1e-6


def test_a_metric_cannot_be_edited() -> None:
    with pytest.raises(AttributeError):
        metric_named("l1").widest = 3.0  # type: ignore[misc]


def test_a_metric_of_ones_own_needs_a_name_a_line_a_function_and_a_diameter() -> None:
    farthest = Metric(
        name="max",
        summary="largest difference",
        between=lambda rows, centers: np.abs(rows[:, None] - centers[None]).max(axis=2),
        widest=1.0,
    )

    assert farthest.between(LEFT, HALF).tolist() == [[0.5]]
    assert farthest.has_triangle
    assert farthest.power == 1


def test_unit_rows_keep_the_direction_and_leave_zero_rows_at_zero() -> None:
    assert unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]]


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307])
def test_unit_rows_do_not_care_for_the_size_of_numbers(scale: float) -> None:
    assert unit_rows(np.array([[3.0, 4.0]]) * scale) == pytest.approx(np.array([[0.6, 0.8]]), rel=1e-3)


def test_unit_rows_of_nothing_are_nothing() -> None:
    assert unit_rows(np.empty((0, 3))).shape == (0, 3)
    assert unit_rows(np.ones((1, 1), dtype=np.float32)).dtype == np.float64
