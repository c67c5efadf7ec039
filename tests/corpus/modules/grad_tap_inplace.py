"""A logging hook normalises the gradient in flight in place, and the addition shares it with the other branch."""

# silently-wrong, watch=blind
import torch
from torch import nn


class Tap:
    """Record the normalised gradient that flows through a tensor (logging only!)."""

    def __init__(self):
        self.records = {}

    def attach(self, name, t):
        def hook(g):
            unit = g.detach()
            unit.div_(unit.norm() + 1e-12)  # harm
            self.records[name] = unit.abs().mean().item()

        t.register_hook(hook)
        return t


class Block(nn.Module):
    def __init__(self, d, tap):
        super().__init__()
        self.f, self.g, self.tap = nn.Linear(d, d), nn.Linear(d, d), tap

    def forward(self, x):
        left = self.f(x).tanh()
        right = self.tap.attach("right", self.g(x))
        return left + right


def make():
    torch.manual_seed(60)
    tap = Tap()
    return Block(4, tap), nn.Linear(4, 1), torch.randn(6, 4), tap


def run():
    block, head, x, tap = make()
    loss = head(block(x)).square().sum()
    loss.backward()
    return {"f": block.f.weight.grad, "g": block.g.weight.grad, "head": head.weight.grad}


# truth
def truth():
    Tap.attach = lambda self, name, t: t
    return run()
