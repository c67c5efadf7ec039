"""A Function scales its input in place without mark_dirty; the skip connection's gradient does not know."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn


class CustomOp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        x *= factor  # [bug] harm
        x = x * factor  # [fixed]
        y, c = x.sin(), x.cos()
        ctx.save_for_backward(c)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        # d/dx sin(f x) = f cos(f x)
        (c,) = ctx.saved_tensors
        return grad_output * ctx.factor * c, None


class SirenLayer(nn.Module):
    def __init__(self, i, o, w0):
        super().__init__()
        self.lin = nn.Linear(i, o)
        self.w0 = w0

    def forward(self, x):
        pre = self.lin(x)
        return CustomOp.apply(pre, self.w0) + pre


def make():
    torch.manual_seed(18)
    return nn.Sequential(SirenLayer(2, 6, 3.0), nn.Linear(6, 1)), torch.rand(9, 2)


def run():
    net, xy = make()
    target = (xy[:, :1] * xy[:, 1:]).sin()
    loss = (net(xy) - target).pow(2).mean()
    loss.backward()
    return {"lin": net[0].lin.weight.grad, "last": net[1].weight.grad}


# truth
def truth():
    CustomOp.apply = staticmethod(lambda x, factor: x.mul_(factor).sin())  # [bug]
    CustomOp.apply = staticmethod(lambda x, factor: (x * factor).sin())  # [fixed]
    return run()
