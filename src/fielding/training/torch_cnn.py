"""A small convolutional network for small images."""

from torch import nn

from fielding.training.torch_shapes import image_shape


def cnn(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return two 3x3 convolutions of 16 and 32 channels, each with 2x2 pooling and ReLU, and two dense layers.

    Parameters
    ----------
    input_shape
        Channels, height, width. Pooling rounds up, so images of any size pass; the hidden layer of 64 units grows
        with the image.
    n_classes
        Classes.
    """
    channels, height, width = image_shape(input_shape)
    pooled = 32 * _quarter(height) * _quarter(width)
    return nn.Sequential(
        # Pooling first gives the same maps as ReLU first, and leaves ReLU a quarter of the work.
        *(nn.Conv2d(channels, 16, 3, padding=1), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(inplace=True)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(inplace=True)),
        *(nn.Flatten(), nn.Linear(pooled, 64), nn.ReLU(inplace=True), nn.Linear(64, n_classes)),
    )


def _quarter(size: int) -> int:
    half = (size + 1) // 2
    return (half + 1) // 2
