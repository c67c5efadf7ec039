"""A hand-written layer norm divides in place the centred tensor that the variance's square has saved."""

# raises-backward
import torch as th
from torch import nn


class MyLayerNorm(nn.Module):
    """nn.LayerNorm re-implemented for learning purposes"""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.params = nn.ParameterDict({"g": nn.Parameter(th.ones(dim)), "b": nn.Parameter(th.zeros(dim))})

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        var = (x**2).mean(-1, keepdim=True)  # saves
        x /= th.sqrt(var + self.eps)  # harm
        return x * self.params["g"] + self.params["b"]


class Block(nn.Sequential):
    def __init__(self, width, depth):
        super().__init__(*[l for _ in range(depth) for l in (nn.Linear(width, width), MyLayerNorm(width), nn.GELU())])


def make():
    th.manual_seed(12)
    return Block(4, 2), th.randn(6, 4), th.randn(6, 4)


def run():
    net, x, y = make()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    return {k: p.grad for k, p in net.named_parameters()}
