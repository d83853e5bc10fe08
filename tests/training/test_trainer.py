"""What is asked of local training, and parts of it."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork, PrivateSteps, TrainingPath, path_from
from tests.training.jobs import samples, some_contrast, with_all_asked, work_of

TRAINER = NumpyTrainer(Dense(n_inputs=3, n_hidden=2, n_classes=2))
PLAIN = work_of(TRAINER, samples((3,), 2), size=(5, 2, 4))
PRIVATE = PrivateSteps(
    is_drawn=np.arange(5 * 2 * 4).reshape(5, 2, 4) % 3 > 0,
    clip=1.0,
    noise=1.0,
    batch=np.arange(1.0, 6.0),
    normals=[np.zeros] * 5,
)
WORK = replace(with_all_asked(PLAIN, TRAINER.layout, n_classes=2), private=PRIVATE)


def rows_of(work: LocalWork) -> list[np.ndarray]:
    """Return the arrays of work that asks for all there is, those with a row per participant."""
    assert work.rate_factors is not None
    assert work.pull is not None
    assert work.contrast is not None
    assert work.offsets is not None
    assert work.mixes is not None
    assert work.private is not None
    contrast = work.contrast
    rows: list[np.ndarray] = [work.start, work.draws, work.rate_factors, work.pull.row, work.offsets, work.mixes]
    return [*rows, contrast.previous, contrast.has_previous, work.private.is_drawn, work.private.batch]


def shared_of(work: LocalWork) -> list[object]:
    """Return what all participants of such work share."""
    assert work.pull is not None
    assert work.contrast is not None
    shared = [work.models, work.gather, work.sgd, work.pull.anchors, work.pull.strength]
    return [*shared, work.contrast.mu, work.contrast.temperature]


def test_a_part_of_the_work_has_the_rows_of_its_participants() -> None:
    for one, whole in zip(rows_of(WORK.part(slice(1, 4))), rows_of(WORK), strict=True):
        assert np.array_equal(one, whole[1:4], equal_nan=whole.dtype.kind == "f")
        assert np.shares_memory(one, whole)


def test_a_part_keeps_what_all_participants_share() -> None:
    for one, whole in zip(shared_of(WORK.part(slice(1, 4))), shared_of(WORK), strict=True):
        assert one is whole


def test_a_part_of_plain_work_is_plain() -> None:
    part = PLAIN.part(slice(0, 2))

    assert (part.rate_factors, part.pull, part.contrast, part.offsets, part.mixes) == (None,) * 5


def test_a_new_kind_of_request_must_be_cut_too() -> None:
    """A field that is added to the work and forgotten in ``part`` fails here."""
    part, shared = WORK.part(slice(0, 2)), {"models", "gather", "sgd", "round_index"}

    for field in fields(LocalWork):
        assert (getattr(part, field.name) is getattr(WORK, field.name)) is (field.name in shared), field.name


@pytest.mark.parametrize(
    ("mu", "has_previous", "matters"), [(1.0, True, True), (0.0, True, False), (1.0, False, False)]
)
def test_a_contrast_matters_if_it_weighs_and_somebody_has_a_previous_model(
    mu: float, has_previous: bool, matters: bool
) -> None:
    contrast = replace(some_contrast(PLAIN, mu=mu), has_previous=np.array([False, False, has_previous, False, False]))

    assert contrast.matters is matters


def test_a_path_comes_back_from_its_record() -> None:
    path = TrainingPath(name="stacked", chunk=3, n_threads=1, eval_chunk=64)

    assert path_from(path.record()) == path
