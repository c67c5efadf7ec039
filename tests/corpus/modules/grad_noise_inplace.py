"""Tensor hook adds noise to a gradient in place, the gradient also serves the skip path"""

# bug: silently-wrong, watch=blind
# fixed: correct
# parameter: correct
import torch
from torch import nn


class NoisyGrad:
    def __init__(self, scale):
        self.scale = scale
        self.rng = torch.Generator().manual_seed(1)
        self.calls = 0

    def __call__(self, grad):
        self.calls += 1
        noise = torch.randn(grad.shape, generator=self.rng) * self.scale
        grad += noise  # [bug] harm
        grad = grad + noise  # [fixed]
        grad += noise  # [parameter]
        return None  # [parameter bug]
        return grad - noise  # [fixed]


def make():
    torch.manual_seed(60)
    a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    scale = 0.5  # [bug fixed]
    scale = 0.0  # [parameter]
    return a, b, NoisyGrad(scale), torch.randn(3, 2)


def forward(a, b, hook, x):
    left = a(x)
    right = b(x)
    right.register_hook(hook)
    return left - 0 + right


def run():
    a, b, hook, x = make()
    out = forward(a, b, hook, x)
    loss = (out - 1).pow(2).sum()
    loss.backward()
    assert hook.calls == 1
    return {"a": a.weight.grad, "b": b.weight.grad}


# truth
def truth():
    a, b, hook, x = make()
    g = 2 * (a(x) + b(x) - 1).detach()
    return {"a": g.t() @ x, "b": g.t() @ x}
