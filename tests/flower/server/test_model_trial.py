"""What no device could do with a model is told by the server."""

import pytest

from fielding._typing import Json
from fielding.config.reader import config_from
from fielding.engine.plugins import with_mix
from fielding.errors import OptionError
from fielding.flower.server.deployment import try_model
from fielding.training.factory import ModelRequest, trainer_for

CORRECTED: dict[str, Json] = {"serving": {"correction": "prior"}}
MOON: dict[str, Json] = {"training": {"moon": 1.0, "batch_size": 3}}


def tried(table: dict[str, Json], name: str, trainer: str = "numpy") -> None:
    config = config_from(table)
    made = trainer_for(ModelRequest(name=name, hidden=4, input_shape=(2, 2), n_classes=3, trainer=trainer))
    try_model(with_mix(config, made, 3), (2, 2), config)


@pytest.mark.parametrize("table", [{}, CORRECTED, MOON, {**CORRECTED, **MOON}])
def test_a_model_that_can_do_everything_is_taken(table: dict[str, Json]) -> None:
    tried(table, "mlp")


def test_a_model_without_a_hidden_layer_can_be_corrected_but_not_contrasted() -> None:
    tried(CORRECTED, "softmax")
    with pytest.raises(OptionError, match=r"training\.moon is 1, but contrast needs a hidden layer"):
        tried(MOON, "softmax")


def test_a_module_of_ones_own_that_hides_its_last_layer_cannot_be_corrected() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(OptionError, match=r"serving\.correction: "):
        tried(CORRECTED, "tests.training.modules:pixelwise", "torch")
