"""The reference models of the PyTorch trainer, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from fielding.training.torch_cnn import cnn
from fielding.training.torch_resnet import resnet18
from fielding.training.torch_shufflenet import shufflenet_v2
from fielding.training.torch_vit import vit_b16

ModuleFactory: TypeAlias = Callable[..., object]
"""Called as ``factory(input_shape=..., n_classes=...)``; must return a ``torch.nn.Module``.

The shape is that of one sample, channels first.
"""

MODULES: Mapping[str, ModuleFactory] = MappingProxyType(
    {"cnn": cnn, "resnet18": resnet18, "shufflenet-v2": shufflenet_v2, "vit-b16": vit_b16}
)
"""Reference models but for the dense ones, which :mod:`fielding.training.dense` describes."""
