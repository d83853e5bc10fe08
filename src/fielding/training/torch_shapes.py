"""Shapes of samples as PyTorch modules see them: images come with their channels first."""

from fielding.errors import OptionError

SMALL_IMAGE = 64
"""Below this shorter side, in pixels, networks made for photographs keep the full resolution in their first layers."""


def module_shape(sample_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one sample as a module sees it.

    Parameters
    ----------
    sample_shape
        As the pool holds it: ``(height, width)`` and ``(height, width, channels)`` are images, other shapes stay.

    Examples
    --------
    >>> module_shape((28, 28)), module_shape((32, 32, 3)), module_shape((100,))
    ((1, 28, 28), (3, 32, 32), (100,))
    """
    if len(sample_shape) == 2:
        return (1, *sample_shape)
    if len(sample_shape) == 3:
        return (sample_shape[2], *sample_shape[:2])
    return sample_shape


def image_shape(input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return channels, height and width, or raise if samples are no images."""
    if len(input_shape) != 3:
        raise OptionError(f"samples have shape {input_shape}, which is no image; use model mlp or softmax")
    channels, height, width = input_shape
    return channels, height, width


def is_small(input_shape: tuple[int, ...]) -> bool:
    """Return whether an image's shorter side is below ``SMALL_IMAGE``."""
    return min(input_shape[1:]) < SMALL_IMAGE
