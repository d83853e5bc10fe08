"""Mini-batches in bounded memory, and what is kept of the losses."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Codes, Counts, Features, Vector
from fielding.errors import InputError
from fielding.training import batches as feeding
from fielding.training.batches import check_work, mini_batches, summarize_training
from fielding.training.layout import Layout
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork
from tests.training.jobs import samples, with_all_asked, work_of

TRAINER = NumpyTrainer(Dense(n_inputs=3, n_hidden=0, n_classes=2))
POOL = samples((3,), 2)


def fetched(work: LocalWork) -> tuple[list[int], list[Features], list[Codes]]:
    """Return how many entries each call asked for, and the features and labels of each step."""
    asked: list[int] = []

    def counting(entries: Counts) -> tuple[Features, Codes]:
        asked.append(entries.size)
        return POOL[0][entries], POOL[1][entries]

    batches = list(mini_batches(replace(work, gather=counting), sample_size=3))
    return asked, [x for x, _ in batches], [y for _, y in batches]


@pytest.mark.parametrize(
    ("most", "asked"), [(10_000, [60]), (3 * 15 * 2, [30, 30]), (3 * 15 * 3, [45, 15]), (1, [15] * 4)]
)
def test_steps_are_fetched_together_as_far_as_memory_allows(
    most: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "MOST_NUMBERS", most)
    work = work_of(TRAINER, POOL, size=(3, 4, 5))

    counts, x, y = fetched(work)

    assert counts == asked
    for step in range(4):
        assert np.array_equal(x[step], POOL[0][work.draws[:, step]])
        assert np.array_equal(y[step], POOL[1][work.draws[:, step]])


def test_losses_are_averaged_over_steps_and_samples_of_each_participant() -> None:
    losses = np.array([[[1.0, 3.0], [0.0, 0.0]], [[2.0, 2.0], [0.0, 4.0]]], dtype=np.float32)

    done = summarize_training(np.zeros((2, 1), dtype=np.float32), losses)

    assert done.loss.tolist() == [2.0, 1.0]
    assert done.square_loss.tolist() == [4.5, 4.0]
    assert done.loss.dtype == done.square_loss.dtype == np.float64


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"models": np.zeros((2, 7), dtype=np.float32)}, "rows of 8 numbers"),
        ({"models": np.zeros(8, dtype=np.float32)}, "rows of 8 numbers"),
        ({"draws": np.zeros((3, 5), dtype=np.int64)}, "participants, steps, batch size"),
        ({"draws": np.zeros((3, 0, 5), dtype=np.int64)}, "none of them 0"),
        ({"start": np.zeros(2, dtype=np.int64)}, "for each of 3"),
    ],
)
def test_work_that_does_not_fit_is_refused(wrong: dict[str, np.ndarray], words: str) -> None:
    work = replace(work_of(TRAINER, POOL), **wrong)  # type: ignore[arg-type]

    with pytest.raises(InputError, match=words):
        check_work(work, layout=TRAINER.layout, n_classes=2)


LAYOUT = Layout(names=("weight", "mean"), shapes=((6,), (2,)), n_parameters=1)
"""Six parameters and two buffers: as long as the models of the trainer."""
ALL_ASKED = with_all_asked(work_of(TRAINER, POOL), LAYOUT, n_classes=2)


def test_work_that_asks_for_all_there_is_passes() -> None:
    check_work(ALL_ASKED, layout=LAYOUT, n_classes=2)


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        (np.ones(2), r"shape \(2,\); give one for each of 3"),
        (np.array([1.0, -0.5, 2.0]), "go from -0.5 to 2.0; give finite ones of at least 0"),
        (np.array([1.0, np.nan, 2.0]), "go from nan to nan"),
        (np.array([1.0, np.inf, 2.0]), "go from 1.0 to inf"),
    ],
)
def test_rate_factors_that_cannot_be_used_are_refused(factors: Vector, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_work(replace(ALL_ASKED, rate_factors=factors), layout=LAYOUT, n_classes=2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"anchors": np.zeros((3, 7), dtype=np.float32)}, "rows of 8 numbers"),
        ({"anchors": np.zeros(8, dtype=np.float32)}, "rows of 8 numbers"),
        ({"row": np.zeros(4, dtype=np.int64)}, "one anchor for each of 3"),
        ({"row": np.array([0, 3, 1])}, "row goes from 0 to 3; there are 3 anchors"),
        ({"row": np.array([0, -1, 1])}, "row goes from -1 to 1; there are 3 anchors"),
        ({"strength": np.zeros(6)}, "one for each of 8 numbers"),
        ({"strength": np.full(8, -1.0)}, "strength goes from -1.0 to -1.0; give finite ones of at least 0"),
        ({"strength": np.full(8, np.nan)}, "strength goes from nan to nan"),
        ({"strength": np.ones(8)}, "not 0 on buffers, which take no step; set it to 0 from 6 on"),
    ],
)
def test_a_pull_that_does_not_fit_is_refused(wrong: dict[str, np.ndarray], words: str) -> None:
    assert ALL_ASKED.pull is not None
    work = replace(ALL_ASKED, pull=replace(ALL_ASKED.pull, **wrong))

    with pytest.raises(InputError, match=words):
        check_work(work, layout=LAYOUT, n_classes=2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"previous": np.zeros((3, 7), dtype=np.float32)}, r"previous has shape \(3, 7\); it must be \(3, 8\)"),
        ({"has_previous": np.ones(2, dtype=np.bool_)}, "yes or no for each of 3"),
        ({"has_previous": np.ones(3, dtype=np.int64)}, "has_previous is int64"),
        ({"mu": -1.0}, "mu is -1.0; give a finite number of at least 0"),
        ({"mu": float("nan")}, "mu is nan"),
        ({"temperature": 0.0}, "temperature is 0.0; give a finite number above 0"),
        ({"temperature": float("inf")}, "temperature is inf"),
    ],
)
def test_a_contrast_that_does_not_fit_is_refused(wrong: dict[str, object], words: str) -> None:
    assert ALL_ASKED.contrast is not None
    work = replace(ALL_ASKED, contrast=replace(ALL_ASKED.contrast, **wrong))  # type: ignore[arg-type]

    with pytest.raises(InputError, match=words):
        check_work(work, layout=LAYOUT, n_classes=2)


@pytest.mark.parametrize("name", ["offsets", "mixes"])
@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (np.zeros((3, 3)), r"have shape \(3, 3\); give one for each participant and class, \(3, 2\)"),
        (np.zeros(2), r"have shape \(2,\)"),
        (np.array([[0.0, 1.0], [0.0, -np.inf], [0.0, 1.0]]), "go from -inf to 1.0; give finite ones"),
        (np.array([[0.0, 1.0], [0.0, np.nan], [0.0, 1.0]]), "go from nan to nan"),
    ],
)
def test_numbers_by_class_that_do_not_fit_are_refused(name: str, numbers: np.ndarray, words: str) -> None:
    work = replace(ALL_ASKED, **{name: numbers})  # type: ignore[arg-type]

    with pytest.raises(InputError, match=f"{name} {words}"):
        check_work(work, layout=LAYOUT, n_classes=2)
