"""The networks whose training steps are measured: small forms of ResNet-18 and of a GPT."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """A residual block."""

    def __init__(self, before: int, after: int):
        super().__init__()
        stride = 1 if before == after else 2
        first, second = _convolution(before, after, 3, stride), _convolution(after, after, 3, 1)
        self.layers = nn.Sequential(first, nn.ReLU(inplace=True), second)
        self.shortcut = nn.Identity() if before == after else _convolution(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return functional.relu(self.layers(x) + self.shortcut(x))


def _convolution(before: int, after: int, size: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))


def resnet(width: int) -> nn.Sequential:
    """Return a network with the layers of ResNet-18 (which itself begins 64 channels wide) for small images."""
    widths = [width * factor for factor in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
    stem = [_convolution(3, width, 3, 1), nn.ReLU(inplace=True)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*stem, *(Residual(before, after) for before, after in pairwise(widths)), *head)


class Block(nn.Module):
    """A transformer block, as in nanoGPT."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        batch, length, width = x.shape
        parts = self.attention(self.first(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(self.second(x))


def gpt(layers: int, width: int) -> nn.Sequential:
    """Return a transformer that gives the logits of 256 tokens at each place, all places in a row."""
    blocks = (Block(width, 4) for _ in range(layers))
    return nn.Sequential(nn.Embedding(256, width), *blocks, nn.Linear(width, 256), nn.Flatten(0, 1))
