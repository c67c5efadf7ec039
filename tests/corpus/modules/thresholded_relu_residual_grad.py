"""A hand-written backward zeroes entries of its incoming gradient, which the addition handed to the skip branch too."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn
from torch.autograd import Function


class ShiftedReLU(Function):
    @staticmethod
    def forward(ctx, x, thr):
        ctx.save_for_backward(x)
        ctx.thr = thr
        return torch.where(x > thr, x - thr, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g[x <= ctx.thr] = 0  # [bug] harm
        g = g.masked_fill(x <= ctx.thr, 0)  # [fixed]
        return g, None


shrink = ShiftedReLU.apply


class Residual(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x) + x


def make():
    torch.manual_seed(33)
    W = nn.Linear(4, 4)
    act = Residual(lambda t: shrink(t, 0.1))
    return W, act, torch.randn(5, 4), torch.randn(5, 4)


def run():
    W, act, x, y = make()
    pred = act(W(x))
    loss = (pred - y).pow(2).sum()
    loss.backward()
    return {"W": W.weight.grad, "b": W.bias.grad}


# truth
def truth():
    global shrink
    shrink = lambda x, thr: torch.where(x > thr, x - thr, 0.0)
    return run()
