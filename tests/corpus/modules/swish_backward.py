"""Memory-saving swish whose backward reuses the saved input as scratch space."""

# bug: silently-wrong, tensor=x, watch=blind
# fixed: correct
# scratch: correct
import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        tmp = x.data  # [bug]
        tmp.mul_(1 - s).add_(1).mul_(s)  # [bug] harm
        tmp = x * (1 - s)  # [scratch]
        tmp.add_(1).mul_(s)  # [scratch]
        tmp = s * (1 + x * (1 - s))  # [fixed]
        return g * tmp


class GatedMLP(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inp = nn.Linear(d, d)
        self.gain = nn.Parameter(torch.full((d,), 1.5))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x)
        scaled = h * self.gain
        return self.out(Swish.apply(h) + scaled)


def make():
    torch.manual_seed(24)
    return GatedMLP(3), torch.randn(4, 3)


def run():
    net, x = make()
    net(x).sum().backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x = make()
    h = net.inp(x)
    y = net.out(nn.functional.silu(h) + h * net.gain)
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(y.sum(), list(net.parameters()))))
