"""What a user's own code hands over is checked before anything is kept of it."""

import numpy as np
import numpy.typing as npt
import pytest

from fielding.errors import CheckpointError, InputError
from fielding.flower.device.samples import Kept, checked_samples, kept_from
from fielding.runtime.own_code import Samples


def checked(samples: object, *, now: int = 3, since: int | None = None) -> Kept:
    return given(samples, now=now, since=since)[0]


def given(samples: object, *, now: int = 3, since: int | None = None) -> tuple[Kept, npt.NDArray[np.generic]]:
    return checked_samples(samples, n_classes=2, now=now, since=since)


def test_samples_are_of_this_round_and_become_float32() -> None:
    kept, x = given(Samples([[1, 2], [3, 4]], [0, 1], is_test=np.array([False, True])))

    assert (x.tolist(), x.dtype.name, kept.y.tolist()) == ([[1.0, 2.0], [3.0, 4.0]], "float32", [0, 1])
    assert kept.rounds.tolist() == [3, 3]
    assert kept.training().y.tolist() == [0]
    assert kept.testing().y.tolist() == [1]


def test_about_a_fifth_is_for_tests_and_a_sample_that_comes_again_stays_on_its_side() -> None:
    x = np.random.default_rng(1).standard_normal((1000, 3)).astype(np.float32)
    first, again = (checked(Samples(rows, np.zeros(1000, dtype=int))) for rows in (x, x[::-1]))

    assert 150 < first.is_test.sum() < 250
    assert (first.is_test == again.is_test[::-1]).all()


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int16", ">u2", "float16"])
def test_features_that_are_smaller_than_float32_stay_so_and_their_samples_on_their_sides(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2, (200, 9)).astype(dtype)
    small, large = (given(Samples(rows, np.zeros(200, dtype=int))) for rows in (x, x.astype(np.float64)))

    assert (small[1].dtype.itemsize, large[1].dtype.name) == (np.dtype(dtype).itemsize, "float32")
    assert (small[0].is_test == large[0].is_test).all()
    assert (small[1] == large[1]).all()


def test_samples_are_sorted_by_their_rounds_and_otherwise_as_they_came() -> None:
    x = np.arange(4.0)[:, np.newaxis]

    kept, sorted_x = given(Samples(x, np.zeros(4, dtype=int), rounds=[2, -5, 2, -5]))

    assert (sorted_x[:, 0].tolist(), kept.rounds.tolist()) == ([1.0, 3.0, 0.0, 2.0], [-5, -5, 2, 2])


def test_places_count_all_samples_that_ever_came_in_the_order_of_their_arrival() -> None:
    first, second = (
        checked_samples(
            Samples(np.eye(3), [0, 0, 0], rounds=[2, 0, 1]), n_classes=2, now=3, since=since, n_taken=n_taken
        )[0]
        for since, n_taken in ((None, 0), (2, 3))
    )

    both = first.join(second)

    assert (both.places.tolist(), both.rounds.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 3, 3])
    assert both.some(both.rounds >= 1).places.tolist() == [1, 2, 3, 4, 5], "what is thrown away changes none"


def test_nothing_is_a_way_to_say_nothing() -> None:
    for nothing in (None, Samples(np.empty((0, 2)), [])):
        assert checked(nothing).y.size == 0


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (([[1.0]], [0]), "load_data gave a tuple; return Samples"),
        (Samples([[1.0]], [2]), r"labels of load_data \(classes = 2\) hold 2"),
        (Samples([[1.0]], ["cat"]), r"labels of load_data \(classes = 2\) are"),
        (Samples([1.0], [0]), r"float64 of shape \(1,\); give 1 rows"),
        (Samples([[1.0], [2.0]], [0]), r"shape \(2, 1\); give 1 rows"),
        (Samples([["one"]], [0]), "features of load_data are <U3"),
        (Samples([[np.nan]], [0]), "hold NaN or infinity"),
        (Samples([[1.0]], [0], is_test=[0]), "is_test of load_data is int64"),
        (Samples([[1.0]], [0], is_test=[True, False]), r"is_test of load_data is bool of shape \(2,\)"),
        (Samples([[1.0]], [0], rounds=[4]), "rounds of load_data go up to 4; in round 3"),
        (Samples([[1.0]], [0], rounds=[1, 2]), r"rounds of load_data have shape \(2,\)"),
    ],
)
def test_what_cannot_be_kept_is_refused(samples: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(samples)


def test_what_was_saved_comes_back_and_what_does_not_fit_is_refused() -> None:
    kept = checked(Samples([[1.0], [2.0]], [0, 1], is_test=np.array([True, False])))
    arrays, two = kept.arrays(), np.array([2])

    again = kept_from(arrays, two)

    assert all((array == again.arrays()[name]).all() for name, array in arrays.items())
    with pytest.raises(CheckpointError, match=r"kept\.places is missing .*; start anew"):
        kept_from({name: array for name, array in arrays.items() if name != "kept.places"}, two)
    broken: list[dict[str, npt.NDArray[np.generic]]] = [
        {"kept.y": kept.y[:1]},
        {"kept.y": kept.y.astype(np.int64)},
        {"kept.row": kept.row + 1},
        {"kept.row": kept.row - 1},
        {"kept.file": kept.file + 1},
        {"kept.file": kept.file - 2},
    ]
    for one in broken:
        with pytest.raises(CheckpointError, match="start anew"):
            kept_from({**arrays, **one}, two)
