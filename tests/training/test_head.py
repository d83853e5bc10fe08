"""The last layer is known by its shape, and nobody guesses."""

import pytest

from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import head_size
from fielding.training.layout import Layout


@pytest.mark.parametrize(("name", "width"), [("softmax", 6), ("mlp", 7)])
def test_the_models_that_come_along_end_in_their_last_layer(name: str, width: int) -> None:
    trainer = trainer_for(ModelRequest(name=name, hidden=7, input_shape=(6,), n_classes=4))

    assert head_size(trainer.layout, 4) == 4 * (width + 1)


def test_buffers_after_the_parameters_do_not_hide_it() -> None:
    layout = Layout(names=("weight", "bias", "label_mix"), shapes=((3, 5), (3,), (3,)), n_parameters=2)

    assert head_size(layout, 3) == 18


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(((3,), (3, 5)), id="bias first"),
        pytest.param(((5, 5), (3, 5)), id="no bias"),
        pytest.param(((3, 5), (3,), (5, 5), (5,)), id="another layer declared last"),
        pytest.param(((3, 5, 1, 1), (3,)), id="convolution"),
        pytest.param(((3, 5), (5,)), id="bias of something else"),
        pytest.param(((3,),), id="bias alone"),
        pytest.param((), id="nothing"),
    ],
)
def test_of_other_models_nobody_knows_it(shapes: tuple[tuple[int, ...], ...]) -> None:
    names = tuple(str(at) for at in range(len(shapes)))

    assert head_size(Layout(names=names, shapes=shapes, n_parameters=len(shapes)), 3) == 0
