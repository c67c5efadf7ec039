"""The tap works on a clone and returns None; the other hook returns a new, equal gradient."""

# correct, oracle=clone
import torch
from torch import nn


class Tap:
    """Record the normalised gradient that flows through a tensor."""

    def __init__(self):
        self.records = {}

    def attach(self, name, t):
        t.retain_grad()

        def hook(g):
            unit = g.clone()
            unit.div_(unit.norm() + 1e-12)
            self.records[name] = unit

        t.register_hook(hook)
        return t


class Block(nn.Module):
    def __init__(self, d, tap):
        super().__init__()
        self.f, self.g, self.tap = nn.Linear(d, d), nn.Linear(d, d), tap

    def forward(self, x):
        left = self.tap.attach("left", self.f(x).tanh())
        right = self.tap.attach("right", self.g(x))
        return left + right


def make():
    torch.manual_seed(60)
    tap = Tap()
    return Block(4, tap), nn.Linear(4, 1), torch.randn(6, 4), tap


def run():
    block, head, x, tap = make()
    # learning-rate multiplier for the head: hook returns a *new* gradient
    head.weight.register_hook(lambda g: g * 1.0)
    loss = head(block(x)).square().sum()
    loss.backward()
    for unit in tap.records.values():
        unit.abs_()
    return {"f": block.f.weight.grad, "g": block.g.weight.grad, "head": head.weight.grad}
