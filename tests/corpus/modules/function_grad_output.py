"""A gradient-clipping layer clips the gradient it is handed in place; the skip connection shares that gradient."""

# bug: silently-wrong, watch=blind
# fixed: correct
# reversal: correct
import torch
from torch import nn


class ClipBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.bound = bound
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp_(-ctx.bound, ctx.bound), None  # [bug] harm
        return grad.clamp(-ctx.bound, ctx.bound), None  # [fixed]
        return -ctx.bound * grad, None  # [reversal]


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.direct = nn.Linear(3, 3, bias=False)
        self.limited = nn.Linear(3, 3, bias=False)

    def forward(self, x):
        skip = self.direct(x)
        branch = ClipBackward.apply(self.limited(x), 0.01)
        return skip + branch


def make():
    torch.manual_seed(131)
    return Skip(), torch.randn(4, 3), torch.randn(4, 3)


def run():
    net, x, y = make()
    out = net(x)
    loss = (out - y).pow(2).sum()
    loss.backward()
    return {"direct": net.direct.weight.grad, "limited": net.limited.weight.grad}


# truth
def truth():
    net, x, y = make()
    grad = 2 * (net(x) - y).detach()
    limited = grad.clamp(-0.01, 0.01)  # [bug fixed]
    limited = -0.01 * grad  # [reversal]
    return {"direct": grad.t() @ x, "limited": limited.t() @ x}
