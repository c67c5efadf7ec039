"""A logging hook divides the incoming gradient in place, so all below it receives gradients of length one."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn
from collections import defaultdict
from functools import partial


class GradStats:
    def __init__(self):
        self.norms = defaultdict(list)
        self.peak = defaultdict(list)

    def record(self, name, g):
        n = g.norm()
        self.norms[name].append(n.item())
        # direction statistics should not depend on the scale
        unit = g.div_(n + 1e-12)  # [bug] harm
        unit = g.div(n + 1e-12)  # [fixed]
        self.peak[name].append(unit.abs().max().item())

    def watch(self, name, t):
        t.register_hook(partial(self.record, name))


class Encoder(nn.Module):
    def __init__(self, stats):
        super().__init__()
        self.a = nn.Linear(3, 5)
        self.b = nn.Linear(5, 5)
        self.stats = stats

    def forward(self, x):
        h = torch.tanh(self.a(x))
        self.stats.watch("h", h)
        return self.b(h)


def make():
    torch.manual_seed(16)
    return Encoder(GradStats()), torch.randn(7, 3), torch.randn(7, 5)


def run():
    enc, x, y = make()
    loss = nn.functional.smooth_l1_loss(enc(x), y)
    loss.backward()
    return {"a": enc.a.weight.grad, "b": enc.b.weight.grad}


# truth
def truth():
    GradStats.watch = lambda self, name, t: None
    return run()
