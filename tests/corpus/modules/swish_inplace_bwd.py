"""A hand-written backward builds a gradient in a saved tensor, which is also the saved output of the tanh below."""

# bug: raises-backward, watch=blind
# fixed: correct
import torch
import torch.nn as nn


class SwishMul(torch.autograd.Function):
    """swish(a) * b with a recomputed backward (less memory)"""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * torch.sigmoid(a) * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        sig = torch.sigmoid(a)
        d_b = g * a * sig
        d_a = b.mul_(g).mul_(sig * (1 + a * (1 - sig)))  # [bug] harm
        d_a = b * g * (sig * (1 + a * (1 - sig)))  # [fixed]
        return d_a, d_b


class GatedUnit(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)

    def forward(self, x):
        gate = torch.tanh(self.b(x))
        return SwishMul.apply(self.a(x), gate)


def make():
    torch.manual_seed(60)
    return nn.Sequential(GatedUnit(4), GatedUnit(4)), torch.randn(3, 4)


def run():
    net, x = make()
    net(x).sum().backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    SwishMul.apply = staticmethod(lambda a, b: nn.functional.silu(a) * b)
    return run()
