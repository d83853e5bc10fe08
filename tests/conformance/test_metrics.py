"""What every metric must keep, whoever wrote it: each test runs over all of METRICS."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.distance import METRICS, TIE, Kind, Metric, metric_named

Array = npt.NDArray[np.float64]

FLOAT32_MAX = float(np.finfo(np.float32).max)
ROUNDING = 1e-12
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
every_vector_metric = pytest.mark.parametrize(
    "metric", [metric for metric in METRICS.values() if not metric.needs_histogram], ids=lambda metric: metric.name
)


@st.composite
def histograms(draw: st.DrawFn, most_rows: int = 6) -> Array:
    """Draw label shares as clients send them: counts of few samples, so with zeros and duplicates."""
    shape = (draw(st.integers(1, most_rows)), draw(st.integers(1, 8)))
    counts = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 20)))
    counts[counts.sum(axis=1) == 0, 0] = 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def vectors(largest: float) -> st.SearchStrategy[Array]:
    shape = st.tuples(st.integers(1, 6), st.integers(1, 8))
    numbers = st.floats(-largest, largest, allow_nan=False, width=32)
    return hnp.arrays(np.float64, shape, elements=numbers)


def dealt(n_rows: int, n_features: int = 10, *, kind: Kind = "histogram") -> Array:
    """Return representations without zeros or ties."""
    rng = np.random.default_rng(n_rows)
    if kind == "vector":
        return np.asarray(rng.normal(size=(n_rows, n_features)))
    return np.asarray(rng.dirichlet(np.ones(n_features), size=n_rows))


@every_metric
@given(rows=histograms())
def test_a_histogram_lies_at_no_distance_from_itself(metric: Metric, rows: Array) -> None:
    assert np.diagonal(metric.between(rows, rows)).max() < ROUNDING


@every_metric
@given(rows=histograms())
def test_there_is_as_far_as_back(metric: Metric, rows: Array) -> None:
    distances = metric.between(rows, rows)

    assert np.abs(distances - distances.T).max() < ROUNDING


@every_metric
@given(rows=histograms())
def test_histograms_lie_within_the_diameter(metric: Metric, rows: Array) -> None:
    distances = metric.between(rows, rows)

    assert distances.min() >= 0.0
    assert distances.max() <= metric.diameter("histogram") + ROUNDING


@every_metric
def test_the_diameter_is_reached(metric: Metric) -> None:
    apart = metric.between(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]))

    assert apart.max() == pytest.approx(metric.diameter("histogram"), abs=ROUNDING)


@every_vector_metric
@given(rows=vectors(100.0))
def test_vectors_lie_within_the_diameter(metric: Metric, rows: Array) -> None:
    distances = metric.between(rows, rows)

    assert distances.min() >= 0.0
    assert distances.max() <= metric.diameter("vector") + ROUNDING


@pytest.mark.parametrize("metric", [one for one in METRICS.values() if one.has_triangle], ids=lambda one: one.name)
@given(rows=histograms())
def test_a_detour_is_never_shorter(metric: Metric, rows: Array) -> None:
    distances = metric.between(rows, rows)
    shortest_detour = (distances[:, :, None] + distances[None, :, :]).min(axis=1)

    assert (distances <= shortest_detour + ROUNDING).all()


@pytest.mark.parametrize("metric", [one for one in METRICS.values() if one.is_norm], ids=lambda one: one.name)
@given(rows=vectors(100.0), factor=st.floats(-4.0, 4.0))
def test_a_norm_knows_only_the_difference_and_scales_with_it(metric: Metric, rows: Array, factor: float) -> None:
    origin = np.zeros((1, rows.shape[1]))
    from_origin = metric.between(rows - rows[0], origin)

    assert metric.between(rows, rows[:1]) == pytest.approx(from_origin, rel=1e-9, abs=1e-9)
    assert metric.between(factor * rows, origin) == pytest.approx(abs(factor) * metric.between(rows, origin), abs=1e-9)


def reference(name: str, rows: Array, centers: Array) -> Array:
    """Return the distances as others compute them, a pair at a time."""
    from scipy.spatial.distance import jensenshannon
    from sklearn.metrics import pairwise_distances

    if name == "js":
        return np.array([[jensenshannon(row, center, base=2.0) for center in centers] for row in rows])
    if name == "hellinger":
        return np.asarray(pairwise_distances(np.sqrt(rows), np.sqrt(centers)) / np.sqrt(2.0))
    known_as = {"l1": "manhattan", "l2": "euclidean", "cosine": "cosine"}
    return np.asarray(pairwise_distances(rows, centers, metric=known_as[name]))


@every_metric
def test_histograms_are_as_far_apart_as_others_say(metric: Metric) -> None:
    rows, centers = dealt(40), dealt(5)

    assert metric.between(rows, centers) == pytest.approx(reference(metric.name, rows, centers), abs=1e-12)


@every_vector_metric
def test_vectors_are_as_far_apart_as_others_say(metric: Metric) -> None:
    rows, centers = dealt(40, kind="vector"), dealt(5, kind="vector")

    assert metric.between(rows, centers) == pytest.approx(reference(metric.name, rows, centers), abs=1e-12)


@every_metric
@pytest.mark.parametrize("rows_type", [np.float32, np.float64])
@pytest.mark.parametrize("centers_type", [np.float32, np.float64])
def test_single_precision_comes_in_and_double_goes_out(metric: Metric, rows_type: type, centers_type: type) -> None:
    rows = dealt(20).astype(np.float32)  # numbers that both types can hold
    exact = metric.between(rows.astype(np.float64), rows.astype(np.float64))

    found = metric.between(rows.astype(rows_type), rows.astype(centers_type))

    assert found.dtype == np.float64
    assert np.abs(found - exact).max() < ROUNDING


@every_metric
def test_a_center_one_rounding_away_is_no_distance_away(metric: Metric) -> None:
    """A mean of equal members may miss them by a rounding; a tie must stay a tie."""
    rows = dealt(200, 50)

    assert np.diagonal(metric.between(rows, rows * (1.0 + np.finfo(np.float64).eps))).max() < TIE


@every_metric
def test_the_input_stays_as_it_was(metric: Metric) -> None:
    rows, centers = dealt(7), dealt(3)
    before = rows.copy(), centers.copy()
    rows.flags.writeable = centers.flags.writeable = False

    distances = metric.between(rows, centers)

    assert (rows == before[0]).all()
    assert (centers == before[1]).all()
    assert not np.shares_memory(distances, rows)


@every_metric
def test_a_slice_of_a_larger_matrix_is_read_right(metric: Metric) -> None:
    rows = dealt(20)

    assert metric.between(rows[::2], rows[1::3]) == pytest.approx(metric.between(rows, rows)[::2, 1::3], abs=ROUNDING)
    assert metric.between(np.asfortranarray(rows), rows[:1]) == pytest.approx(
        metric.between(rows, rows[:1]), abs=ROUNDING
    )


@every_metric
@pytest.mark.parametrize(("n_rows", "n_centers", "n_features"), [(1, 1, 1), (1, 3, 4), (4, 1, 1), (0, 2, 3), (2, 0, 3)])
def test_every_shape_has_its_answer(metric: Metric, n_rows: int, n_centers: int, n_features: int) -> None:
    distances = metric.between(dealt(n_rows, n_features), dealt(n_centers, n_features))

    assert distances.shape == (n_rows, n_centers)
    assert np.isfinite(distances).all()


@every_metric
def test_with_one_class_all_clients_are_alike(metric: Metric) -> None:
    assert metric.between(np.ones((3, 1)), np.ones((2, 1))).tolist() == [[0.0, 0.0]] * 3


@every_metric
def test_duplicates_lie_together(metric: Metric) -> None:
    rows = np.repeat(dealt(3), 4, axis=0)

    distances = metric.between(rows, rows[::4])

    assert np.ptp(distances.reshape(3, 4, 3), axis=1).max() < ROUNDING


@every_metric
def test_a_silent_row_lies_at_a_finite_distance_within_the_diameter(metric: Metric) -> None:
    zeros, rows = np.zeros((2, 10)), dealt(3)

    for distances in (metric.between(zeros, rows), metric.between(rows, zeros), metric.between(zeros, zeros)):
        assert distances.min() >= 0.0
        assert distances.max() <= metric.diameter("histogram")


@every_metric
@given(share=st.sampled_from([5e-324, 1e-310, 1e-45, 1e-30, 1e-17, 1e-9]))
def test_a_share_next_to_nothing_changes_nothing(metric: Metric, share: float) -> None:
    distances = metric.between(np.array([[1.0 - share, share]]), np.array([[1.0, 0.0], [0.0, 1.0]]))

    assert distances[0] == pytest.approx(np.array([0.0, metric.diameter("histogram")]), abs=1e-4)


@every_vector_metric
@given(rows=vectors(FLOAT32_MAX))
def test_numbers_as_large_as_reports_may_hold_give_finite_distances(metric: Metric, rows: Array) -> None:
    assert np.isfinite(metric.between(rows, rows)).all()


@every_vector_metric
@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-45, FLOAT32_MAX])
def test_tiny_and_huge_numbers_give_finite_distances(metric: Metric, size: float) -> None:
    rows = size * np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 0.0]])

    assert np.isfinite(metric.between(rows, rows)).all()


@every_metric
def test_equal_input_gives_equal_bits(metric: Metric) -> None:
    rows = dealt(30)

    assert metric.between(rows, rows[:4]).tobytes() == metric.between(rows.copy(), rows[:4].copy()).tobytes()


def test_the_suite_covers_metrics_by_their_names() -> None:
    assert all(metric_named(name) is metric for name, metric in METRICS.items())
