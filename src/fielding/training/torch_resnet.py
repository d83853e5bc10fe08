"""ResNet-18 (He et al., CVPR 2016), with the stem for small images that its authors use on CIFAR."""

import torch
from torch import nn

from fielding.training.torch_shapes import image_shape, is_small

WIDTHS = (64, 128, 256, 512)


def resnet18(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ResNet-18; on small images it starts with a 3x3 convolution and no pooling.

    Tensors are named as in other PyTorch libraries, so that published weights fit.

    Parameters
    ----------
    input_shape
        Channels, height, width.
    n_classes
        Classes.
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
