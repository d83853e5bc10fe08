"""The reference models of the PyTorch trainer, by name."""

from collections.abc import Callable, Mapping
from math import ceil
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import nn
from torch.nn import functional

from fielding.errors import OptionError

SMALL_IMAGE = 64
"""Below this shorter side, in pixels, networks made for photographs keep the full resolution in their first layers."""


def module_shape(sample_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one sample as a module sees it.

    The pool holds images as ``(height, width)`` or ``(height, width, channels)``; other shapes stay.

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


def cnn(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return two 3x3 convolutions of 16 and 32 channels, each with 2x2 pooling and ReLU, and two dense layers.

    Pooling rounds up, so images of any size pass; the hidden layer of 64 units grows with the image.
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


WIDTHS = (64, 128, 256, 512)


def resnet18(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ResNet-18; on small images it starts with a 3x3 convolution and no pooling.

    Tensors are named as in other PyTorch libraries, so that published weights fit.
    """
    return ResNet(input_shape=input_shape, n_classes=n_classes)


class ResNet(nn.Module):
    """A stem, four stages of two blocks each, the mean over the image, one dense layer."""

    def __init__(self, *, input_shape: tuple[int, ...], n_classes: int) -> None:
        super().__init__()
        channels = image_shape(input_shape)[0]
        if is_small(input_shape):
            self.conv1 = nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False)
            self.maxpool: nn.Module = nn.Identity()
        else:
            self.conv1 = nn.Conv2d(channels, WIDTHS[0], 7, stride=2, padding=3, bias=False)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.layer1 = _stage(WIDTHS[0], WIDTHS[0], stride=1)
        self.layer2 = _stage(WIDTHS[0], WIDTHS[1], stride=2)
        self.layer3 = _stage(WIDTHS[1], WIDTHS[2], stride=2)
        self.layer4 = _stage(WIDTHS[2], WIDTHS[3], stride=2)
        self.fc = nn.Linear(WIDTHS[3], n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of images, shape ``(n, n_classes)``."""
        maps = self.maxpool(torch.relu_(self.bn1(self.conv1(x))))
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        scores: torch.Tensor = self.fc(maps.mean(dim=(2, 3)))
        return scores


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a way around them."""

    def __init__(self, n_in: int, n_out: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample: nn.Module | None = None
        if stride > 1 or n_in != n_out:
            around = nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(around, nn.BatchNorm2d(n_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the maps of the block."""
        maps = torch.relu_(self.bn1(self.conv1(x)))
        maps = self.bn2(self.conv2(maps))
        maps += x if self.downsample is None else self.downsample(x)
        return torch.relu_(maps)


def _stage(n_in: int, n_out: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(n_in, n_out, stride=stride), ResidualBlock(n_out, n_out, stride=1))


STEM = 24
STAGES = ((116, 4), (232, 8), (464, 4))  # channels and units of each stage
LAST = 1024


def shufflenet_v2(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ShuffleNet v2; on small images the first convolution keeps the resolution and nothing is pooled."""
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
        return _interleave(kept, self.branch(changed))


class HalvingUnit(nn.Module):
    """Both halves of the output come from all channels, at half the resolution."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.branch = _branch(n_in, n_out // 2, stride=2)
        self.shortcut = nn.Sequential(*_depthwise(n_in, stride=2), *_convolution(n_in, n_out // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return maps of half the height and width."""
        return _interleave(self.shortcut(x), self.branch(x))


def _branch(n_in: int, width: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(*_convolution(n_in, width), *_depthwise(width, stride=stride), *_convolution(width, width))


def _convolution(n_in: int, n_out: int, *, size: int = 1, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(n_in, n_out, size, stride=stride, padding=size // 2, bias=False)
    return [convolution, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]


def _depthwise(channels: int, *, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)
    return [convolution, nn.BatchNorm2d(channels)]


def _interleave(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the channels of both, one of each in turn."""
    return torch.stack([first, second], dim=2).flatten(1, 2)


WIDTH, DEPTH, HEADS, MLP_WIDTH = 768, 12, 12, 3072
LARGEST_PATCH, FEWEST_PATCHES = 16, 8


def vit_b16(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ViT-B; patches have 16 pixels a side, or fewer on images below 8 x 16 pixels."""
    return VisionTransformer(input_shape=input_shape, n_classes=n_classes)


def patch_size(height: int, width: int) -> int:
    """Return the side of a patch: an eighth of the shorter side, rounded up, at most 16.

    Examples
    --------
    >>> patch_size(224, 224), patch_size(32, 32), patch_size(28, 28), patch_size(8, 8)
    (16, 4, 4, 1)
    """
    return min(LARGEST_PATCH, ceil(min(height, width) / FEWEST_PATCHES))


class VisionTransformer(nn.Module):
    """Patches become tokens; after twelve blocks the class token alone is scored. No dropout."""

    def __init__(self, *, input_shape: tuple[int, ...], n_classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape(input_shape)
        side = patch_size(height, width)
        self.padding = (0, -width % side, 0, -height % side)
        n_patches = ceil(height / side) * ceil(width / side)
        self.patches = nn.Conv2d(channels, WIDTH, side, stride=side)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, n_patches + 1, WIDTH).normal_(std=0.02))
        self.blocks = nn.Sequential(*(TransformerBlock() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of images, shape ``(n, n_classes)``."""
        if any(self.padding):
            x = functional.pad(x, self.padding)
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(x.shape[0], -1, -1), tokens], dim=1) + self.positions
        scores: torch.Tensor = self.head(self.norm(self.blocks(tokens)[:, 0]))
        return scores


class TransformerBlock(nn.Module):
    """Attention between tokens, then a dense network on each; both normalised before and added to their input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP_WIDTH), nn.GELU(), nn.Linear(MLP_WIDTH, WIDTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return changed tokens, shape ``(n, n_tokens, WIDTH)``."""
        tokens = tokens + self.projection(self._attention(self.norm1(tokens)))
        changed: torch.Tensor = tokens + self.mlp(self.norm2(tokens))
        return changed

    def _attention(self, tokens: torch.Tensor) -> torch.Tensor:
        n_images, n_tokens, _ = tokens.shape
        parts = self.queries_keys_values(tokens).view(n_images, n_tokens, 3, HEADS, WIDTH // HEADS)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return mixed.transpose(1, 2).reshape(n_images, n_tokens, WIDTH)


ModuleFactory: TypeAlias = Callable[..., object]
"""Called as ``factory(input_shape=..., n_classes=...)``; must return a ``torch.nn.Module``.

The shape is that of one sample, channels first.
"""

MODULES: Mapping[str, ModuleFactory] = MappingProxyType(
    {"cnn": cnn, "resnet18": resnet18, "shufflenet-v2": shufflenet_v2, "vit-b16": vit_b16}
)
"""Reference models but for the dense ones, which :mod:`fielding.training.numpy_models` describes."""
