"""ShuffleNet v2 at width 1.0 (Ma et al., ECCV 2018): a network for phones."""

import torch
from torch import nn

from fielding.training.torch_shapes import image_shape, is_small

STEM = 24
STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and units of each stage."""
LAST = 1024


def shufflenet_v2(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ShuffleNet v2; on small images the first convolution keeps the resolution and nothing is pooled.

    Parameters
    ----------
    input_shape
        Channels, height, width.
    n_classes
        Classes.
    """
    small = is_small(image_shape(input_shape))
    layers = [*_convolution(input_shape[0], STEM, size=3, stride=1 if small else 2)]
    if not small:
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    before = STEM
    for channels, n_units in STAGES:
        layers += [HalvingUnit(before, channels), *(ShuffleUnit(channels) for _ in range(n_units - 1))]
        before = channels
    layers += [*_convolution(before, LAST), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(LAST, n_classes)]
    return nn.Sequential(*layers)


class ShuffleUnit(nn.Module):
    """Half of the channels pass through, the other half is convolved; then the channels are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = _branch(channels // 2, channels // 2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return maps of the same shape."""
        kept, changed = x.chunk(2, dim=1)
        return _shuffled(kept, self.branch(changed))


class HalvingUnit(nn.Module):
    """Both halves of the output come from all channels, at half the resolution."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.branch = _branch(n_in, n_out // 2, stride=2)
        self.shortcut = nn.Sequential(*_depthwise(n_in, stride=2), *_convolution(n_in, n_out // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return maps of half the height and width."""
        return _shuffled(self.shortcut(x), self.branch(x))


def _branch(n_in: int, width: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(*_convolution(n_in, width), *_depthwise(width, stride=stride), *_convolution(width, width))


def _convolution(n_in: int, n_out: int, *, size: int = 1, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(n_in, n_out, size, stride=stride, padding=size // 2, bias=False)
    return [convolution, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]


def _depthwise(channels: int, *, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)
    return [convolution, nn.BatchNorm2d(channels)]


def _shuffled(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the channels of both, one of each in turn."""
    return torch.stack([first, second], dim=2).flatten(1, 2)
