"""A sine layer keeps its cosines in a shared workspace on ctx, which the next layer overwrites unseen."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
import torch.nn as nn

W0 = 3.0
_ws = {}


def workspace(shape):
    """avoid allocations: one scratch tensor per shape"""
    if (buf := _ws.get(tuple(shape))) is None:
        buf = _ws[tuple(shape)] = torch.empty(*shape)
    return buf


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.cos = workspace(x.shape)  # [bug]
        torch.cos(W0 * x, out=ctx.cos)  # [bug] harm
        ctx.cos = torch.cos(W0 * x)  # [fixed]
        return torch.sin(W0 * x)

    @staticmethod
    def backward(ctx, gy):
        return gy * W0 * ctx.cos


class SineLayer(nn.Linear):
    def forward(self, x):
        return Sine.apply(super().forward(x))


class Siren(nn.Sequential):
    def __init__(self, *dims):
        super().__init__(*[SineLayer(a, b) for a, b in zip(dims[:-2], dims[1:-1])], nn.Linear(*dims[-2:]))


def make():
    _ws.clear()
    torch.manual_seed(10)
    t = torch.linspace(-1, 1, 9).unsqueeze(1)
    return Siren(1, 4, 4, 1), t, torch.sin(5 * t)


def run():
    net, t, y = make()
    loss = ((net(t) - y) ** 2).mean()
    loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    Sine.apply = staticmethod(lambda x: torch.sin(W0 * x))
    return run()
