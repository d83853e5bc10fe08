import numpy as np
import pytest

from fielding import blas_threads as threads
from fielding.coordinator.clustering import passes
from fielding.coordinator.clustering.passes import chunk_of, run_pass, settle_labels
from fielding.coordinator.clustering.space import SPACES
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from tests.coordinator.clustering.data import NAMES, means_of, objective, planted


@pytest.mark.parametrize("name", NAMES)
def test_chunks_add_up_to_one_look_at_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, centers = planted(500, 7), planted(3, 7, seed=1)
    whole = run_pass(Points(points), centers, space=SPACES[name])

    monkeypatch.setattr(passes, "CHUNK", 64)
    chunked = run_pass(Points(points), centers, space=SPACES[name])

    assert np.array_equal(chunked.labels, whole.labels)
    assert np.array_equal(whole.labels, METRICS[name].between(points, centers).argmin(axis=1))
    np.testing.assert_allclose(chunked.sums, whole.sums)
    assert whole.sums[:, -1].sum() == 500
    assert chunked.cost == pytest.approx(whole.cost)


def test_passes_lower_the_objective_and_stop_at_the_last_one() -> None:
    points = planted(800, 9)
    start = points[:5]

    once = settle_labels(Points(points), start, metric=METRICS["l2"], n_passes=1)
    settled_well = settle_labels(Points(points), start, metric=METRICS["l2"], n_passes=50)

    assert np.array_equal(once, METRICS["l2"].between(points, start).argmin(axis=1))
    assert objective(points, settled_well, METRICS["l2"]) < objective(points, once, METRICS["l2"])
    distances = METRICS["l2"].between(points, means_of(points, settled_well))
    assert np.array_equal(distances.argmin(axis=1), settled_well)


def test_some_rows_of_a_float32_matrix_are_read_alone() -> None:
    matrix = planted(20, 4).astype(np.float32)
    points = Points(matrix, rows=np.array([1, 5, 7, 19]))

    part = chunk_of(points, slice(1, 3))

    assert part.dtype == np.float64
    assert np.array_equal(part, matrix[[5, 7]].astype(np.float64))


def test_the_number_of_threads_changes_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "CHUNK", 50)
    points, centers = Points(planted(500, 7)), planted(3, 7, seed=1)

    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n_threads: n)
        found.append(run_pass(points, centers, space=SPACES["l1"]))

    assert np.array_equal(found[0].sums, found[1].sums)
    assert found[0].cost == found[1].cost
