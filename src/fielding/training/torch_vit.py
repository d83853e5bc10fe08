"""ViT-B/16 (Dosovitskiy et al., ICLR 2021): a transformer on patches of an image."""

from math import ceil

import torch
from torch import nn
from torch.nn import functional

from fielding.training.torch_shapes import image_shape

WIDTH, DEPTH, HEADS, MLP_WIDTH = 768, 12, 12, 3072
LARGEST_PATCH, FEWEST_PATCHES = 16, 8


def vit_b16(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a ViT-B; patches have 16 pixels a side, or fewer on images below 8 x 16 pixels.

    Parameters
    ----------
    input_shape
        Channels, height, width.
    n_classes
        Classes.
    """
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
