"""A logging hook takes abs_ in place on a detached view of the gradient in flight."""

# silently-wrong, watch=blind
import torch
from torch import nn
from collections import defaultdict


class GradStats:
    """Collects |g| statistics of the activations for tensorboard."""

    def __init__(self):
        self.mean = defaultdict(list)
        self.peak = defaultdict(list)

    def watch(self, name, t):
        def record(g):
            a = self._flat_abs(g)
            self.mean[name].append(a.mean().item())
            self.peak[name].append(a.max().item())

        t.register_hook(record)
        return t

    @staticmethod
    def _flat_abs(g):
        v = g.detach().view(-1)
        v.abs_()  # harm
        return v


class TwoBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(3, 4)
        self.right = nn.Linear(3, 4)
        self.stats = GradStats()

    def forward(self, x):
        l = self.left(x)
        r = self.right(x)
        return self.stats.watch("merged", l + r)


def make():
    torch.manual_seed(0)
    return TwoBranch(), torch.randn(6, 3), torch.randn(6, 4)


def run():
    net, x, y = make()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    return {"left": net.left.weight.grad, "right": net.right.weight.grad}


# truth
def truth():
    GradStats.watch = lambda self, name, t: t
    return run()
