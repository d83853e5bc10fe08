"""A module whose last layer cannot be found is refused where that layer is needed, before anything is written."""

from typing import Any

import pytest

from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.errors import OptionError
from fielding.simulation.assembly import Own, assemble
from tests.simulation.run_cases import small_pool, table


def without_bias(*, input_shape: tuple[int, ...], n_classes: int) -> Any:
    torch = pytest.importorskip("torch")
    n_inputs = 1
    for size in input_shape:
        n_inputs *= size
    flat, body, head = torch.nn.Flatten(), torch.nn.Linear(n_inputs, 3), torch.nn.Linear(3, n_classes, bias=False)
    return torch.nn.Sequential(flat, body, head)


def begun(config: Config, own: Own) -> None:
    simulation = assemble(config, own, n_workers=1)
    simulation.method(simulation.trainer.initial_model(1))


MODEL = {"factory": f"{__name__}:without_bias"}
GRADIENT = {"representation": "gradient", "shared_model": "global"}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"aggregation": {"shared_body": True}}, "aggregation.shared_body is true, but the parameters"),
        ({"coordinator": GRADIENT}, 'coordinator.layer is "last", but the parameters'),
        ({"method": {"name": "ifca", "init": "shared-backbone"}}, "method: init is 'shared-backbone', but"),
    ],
)
def test_what_needs_the_last_layer_is_refused_in_one_line(sections: dict[str, Any], words: str) -> None:
    pytest.importorskip("torch")
    own, config = Own(samples=small_pool()), config_from({**table(), "model": MODEL, **sections})

    with pytest.raises(OptionError) as caught:
        begun(config, own)

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_the_full_gradient_needs_none() -> None:
    pytest.importorskip("torch")
    config = config_from({**table(), "model": MODEL, "coordinator": {**GRADIENT, "layer": "full"}})

    assemble(config, Own(samples=small_pool()), n_workers=1).clients.close()
