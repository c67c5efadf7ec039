"""The energy term has saved a hidden state that a correctly declared in-place Function then overwrites."""

# raises-backward
import torch
from torch import nn
from torch.autograd import Function


class InplaceScale(Function):
    """y = s * x, saves an activation copy by writing into x"""

    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        x.mul_(s)  # harm
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, gy):
        return gy * ctx.s, None


inplace_scale = InplaceScale.apply


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)

    def forward(self, x):
        h = self.fc(x)
        energy = (h * h).mean(-1)  # saves
        h = inplace_scale(h, 0.125)  # harm
        return h, energy


def make():
    torch.manual_seed(1)
    return nn.ModuleList([Block(4), Block(4)]), torch.randn(3, 4)


def run():
    blocks, x = make()
    reg = 0.0
    for blk in blocks:
        x, e = blk(x)
        reg = reg + e.sum()
    (x.sum() + 1e-1 * reg).backward()
    return {"b0": blocks[0].fc.weight.grad, "b1": blocks[1].fc.weight.grad}
