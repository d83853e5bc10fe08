"""The first model of the user's own code: drawn once, and kept for whoever goes on."""

from pathlib import Path

import numpy as np
import pytest

from fielding.errors import CheckpointError, InputError
from fielding.flower.server.deployment import FILE, keep_first_model
from fielding.runtime.own_code import first_model_of


class Module:
    """What a torch module tells of itself; other numbers each time."""

    n_drawn = 0

    def __init__(self) -> None:
        Module.n_drawn += 1
        self.state = {"mean": np.zeros(2), "count": np.array(3), "weight": np.full((1, 2), Module.n_drawn)}

    def state_dict(self) -> dict[str, object]:
        return dict(self.state)

    def named_parameters(self) -> list[tuple[str, object]]:
        return [("weight", self.state["weight"])]


def test_parameters_come_first_and_whole_numbers_become_floats() -> None:
    model, layout = first_model_of({"mean": [1, 2], "scale": np.float64(3.0)}, "first_model")
    drawn, of_module = first_model_of(Module(), "first_model")

    assert (model.tolist(), layout.n_parameters, layout.shapes) == ([1.0, 2.0, 3.0], 2, ((2,), ()))
    assert (of_module.names, of_module.n_parameters) == (("weight", "mean", "count"), 1)
    assert drawn.dtype == np.float32
    with pytest.raises(InputError, match="'mean' in the model that first_model gave holds NaN"):
        first_model_of({"mean": np.array([np.nan])}, "first_model")


def test_a_run_that_goes_on_has_the_model_that_it_began_with(tmp_path: Path) -> None:
    begun = first_model_of(keep_first_model(Module, tmp_path, is_begun=False)(), "first_model")
    again = first_model_of(keep_first_model(Module, tmp_path, is_begun=True)(), "first_model")
    anew = first_model_of(keep_first_model(Module, tmp_path, is_begun=False)(), "first_model")

    assert again[0].tolist() == begun[0].tolist() != anew[0].tolist()
    assert again[1] == begun[1]


def test_a_run_of_which_no_model_was_kept_draws_one_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    kept = keep_first_model(Module, tmp_path, is_begun=True)
    assert first_model_of(kept(), "first_model")[0].size == 5
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-3])
    with pytest.raises(CheckpointError):
        first_model_of(kept(), "first_model")
