"""Reference models: published sizes, and images of any size."""

from collections.abc import Mapping

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.errors import OptionError  # noqa: E402
from fielding.training.factory import TORCH_ONLY  # noqa: E402
from fielding.training.torch_models import MODULES, module_shape  # noqa: E402

PHOTOGRAPHS, PHOTOGRAPH_CLASSES = (3, 224, 224), 1000
PUBLISHED: Mapping[str, int] = {"resnet18": 11_689_512, "vit-b16": 86_567_656, "shufflenet-v2": 2_278_604}


def n_parameters(name: str, input_shape: tuple[int, ...], n_classes: int) -> int:
    """Return the size of a model, of which no weight is ever drawn."""
    with torch.device("meta"):
        module = MODULES[name](input_shape=input_shape, n_classes=n_classes)
    assert isinstance(module, torch.nn.Module)
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_factory_knows_the_names_without_loading_torch() -> None:
    assert sorted(TORCH_ONLY) == sorted(MODULES)


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_sizes_on_photographs_are_the_published_ones(name: str, published: int) -> None:
    assert n_parameters(name, PHOTOGRAPHS, PHOTOGRAPH_CLASSES) == published


def test_resnet_on_small_images_has_a_small_stem() -> None:
    assert n_parameters("resnet18", (3, 32, 32), 10) == 11_173_962


def test_the_cnn_has_the_size_of_the_benchmark() -> None:
    convolutions = (9 * 16 + 16) + (9 * 16 * 32 + 32)

    assert n_parameters("cnn", (1, 28, 28), 10) == convolutions + (7 * 7 * 32 * 64 + 64) + (64 * 10 + 10)


@pytest.mark.parametrize("input_shape", [(1, 8, 8), (3, 9, 13), (2, 1, 3)])
@pytest.mark.parametrize("name", ["cnn", "resnet18", "shufflenet-v2"])
def test_images_of_any_size_are_scored(name: str, input_shape: tuple[int, ...]) -> None:
    module = MODULES[name](input_shape=input_shape, n_classes=4)
    assert isinstance(module, torch.nn.Module)

    assert module.eval()(torch.zeros(2, *input_shape)).shape == (2, 4)


@pytest.mark.parametrize("input_shape", [(1, 8, 8), (3, 9, 13), PHOTOGRAPHS])
def test_a_transformer_cuts_any_image_into_patches(input_shape: tuple[int, ...]) -> None:
    with torch.device("meta"):
        module = MODULES["vit-b16"](input_shape=input_shape, n_classes=4)
        assert isinstance(module, torch.nn.Module)

        assert module.eval()(torch.zeros(2, *input_shape)).shape == (2, 4)


@pytest.mark.parametrize("name", MODULES)
def test_samples_that_are_no_images_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="no image; use model mlp or softmax"):
        MODULES[name](input_shape=(100,), n_classes=10)


def test_channels_come_first() -> None:
    assert [module_shape(shape) for shape in [(5,), (4, 6), (4, 6, 3), (2, 3, 4, 5)]] == [
        (5,),
        (1, 4, 6),
        (3, 4, 6),
        (2, 3, 4, 5),
    ]
