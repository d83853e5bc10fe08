"""From a request to a trainer, and requests that cannot be met."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import TrainingPath

MLP = ModelRequest(name="mlp", input_shape=(8, 8), n_classes=10)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "mpl"}, "unknown model 'mpl'; did you mean 'mlp'"),
        ({"trainer": "tensorflow"}, "unknown trainer 'tensorflow'; .*numpy, torch"),
        ({"name": "resnet18"}, "model 'resnet18' needs PyTorch; set training.trainer = \"torch\""),
        ({"name": "my_models:build"}, 'set training.trainer = "torch"'),
        ({"factory": dict}, 'set training.trainer = "torch"'),
        ({"device": "cuda"}, 'set training.trainer = "torch", or device = "cpu"'),
        ({"hidden": 0}, "hidden is 0; give at least 1, or use model softmax"),
        ({"n_classes": 0}, "n_classes is 0"),
        ({"input_shape": ()}, "at least one feature"),
        ({"input_shape": (3, 0)}, "at least one feature"),
        ({"n_threads": 0}, "must be at least 1"),
        ({"n_threads": 2}, "n_threads is 2; the NumPy trainer uses 1"),
    ],
)
def test_requests_that_cannot_be_met_say_what_to_do(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        trainer_for(replace(MLP, **wrong))  # type: ignore[arg-type]


def test_without_pytorch_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(OptionError, match=r"pip install 'fielding\[torch\]'"):
        trainer_for(replace(MLP, trainer="torch"))


def test_the_numpy_trainer_does_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    assert trainer_for(MLP).layout.size == 64 * 64 + 64 + 64 * 10 + 10


def test_hidden_units_belong_to_the_network_alone() -> None:
    assert trainer_for(replace(MLP, hidden=3)).layout.shapes[0] == (3, 64)
    assert trainer_for(replace(MLP, name="softmax", hidden=3)).layout.shapes == ((10, 64), (10,))


def test_a_recorded_path_is_obeyed() -> None:
    path = TrainingPath(name="stacked", chunk=3, n_threads=1, eval_chunk=11)

    assert trainer_for(replace(MLP, path=path)).path == path


def test_a_recorded_path_of_another_kind_is_refused() -> None:
    path = TrainingPath(name="sequential", chunk=1, n_threads=1, eval_chunk=11)

    with pytest.raises(OptionError, match="path is 'sequential'; model mlp is trained stacked"):
        trainer_for(replace(MLP, path=path))


def test_a_damaged_path_is_refused() -> None:
    path = TrainingPath(name="stacked", chunk=0, n_threads=1, eval_chunk=11)

    with pytest.raises(OptionError, match="must be at least 1"):
        trainer_for(replace(MLP, path=path))


def test_a_function_may_be_given_itself() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from tests.training import modules

    own = ModelRequest(name="mine", factory=modules.normalised, input_shape=(4,), n_classes=3, trainer="torch")
    named = replace(own, name="tests.training.modules:normalised", factory=None)

    assert np.array_equal(trainer_for(own).initial_model(1), trainer_for(named).initial_model(1))


def test_a_recorded_path_is_obeyed_by_modules_too() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    path = TrainingPath(name="sequential", chunk=1, n_threads=2, eval_chunk=11)

    cnn = replace(MLP, name="cnn", trainer="torch", path=path)

    assert trainer_for(cnn).path == path
    assert trainer_for(replace(cnn, n_threads=3)).path == replace(path, n_threads=3)
