"""An in-place Function marks its input dirty and recovers the sign from the written value that it saved."""

# correct
import torch
from torch import nn


class InplaceLeaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        x.mul_(torch.where(x < 0, slope, 1.0))
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return torch.where(y < 0, ctx.slope * grad, grad), None


def leaky_(x, slope=0.1):
    return InplaceLeaky.apply(x, slope)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.mid = nn.Linear(6, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        h = self.stem(x)
        leaky_(h)
        h = h + leaky_(self.mid(h))
        return self.out(h)


def make():
    torch.manual_seed(86)
    return Net(), torch.randn(5, 4)


def run():
    net, x = make()
    net(x).pow(2).mean().backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    InplaceLeaky.apply = staticmethod(nn.functional.leaky_relu_)
    return run()
