"""A device keeps the model that it trained last, and all jobs of a round see the one from before it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Models
from fielding.flower.device.previous_model import PREVIOUS, keep_model, previous_model
from tests.flower.devices import train


def model(value: float) -> Models:
    return np.full(6, value, dtype=np.float32)


def previous(folder: Path, round_index: int) -> float | None:
    found = previous_model(folder, train(round_index))
    return None if found is None else float(found[0])


def test_it_is_that_of_the_rounds_before(tmp_path: Path) -> None:
    seen = [previous(tmp_path, 0)]
    for round_index, value in ((0, 1.0), (0, 2.0), (3, 3.0), (3, 4.0)):
        keep_model(tmp_path, train(round_index), model(value))
        seen.append(previous(tmp_path, round_index))

    assert seen == [None, None, None, 2.0, 2.0], "of several jobs the last is kept"
    assert previous(tmp_path, 4) == 4.0


def test_a_round_that_is_done_again_finds_what_it_found(tmp_path: Path) -> None:
    keep_model(tmp_path, train(1), model(1.0))
    keep_model(tmp_path, train(2), model(2.0))
    keep_model(tmp_path, train(2), model(2.5))
    keep_model(tmp_path, train(1), model(9.0))

    assert [previous(tmp_path, at) for at in (2, 3)] == [1.0, 2.5], "an earlier round is over"


def test_what_is_not_finite_or_of_another_model_counts_for_nothing(tmp_path: Path) -> None:
    keep_model(tmp_path, train(0), model(1.0))
    keep_model(tmp_path, train(1), model(np.nan))

    assert previous(tmp_path, 2) == 1.0
    assert previous_model(tmp_path, replace(train(2), layout=replace(train(0).layout, shapes=((9,), (2,))))) is None


@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_a_damaged_file_is_put_aside(content: bytes, tmp_path: Path) -> None:
    keep_model(tmp_path, train(0), model(1.0))
    (tmp_path / PREVIOUS).write_bytes(content)

    assert previous(tmp_path, 1) is None
    assert (tmp_path / f"{PREVIOUS}.damaged").exists()
