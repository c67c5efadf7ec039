"""A logging hook takes abs_ of the detached gradient in flight, so all below that layer receives absolute values."""

# silently-wrong, watch=blind
import torch
import torch.nn as nn
from collections import defaultdict


def watch(stats):
    def deco(forward):
        def wrapped(self, x, *a, **k):
            out = forward(self, x, *a, **k)
            if out.requires_grad:
                out.register_hook(lambda g, key=self.tag: stats[key].append(magnitude(g)))
            return out

        return wrapped

    return deco


def magnitude(g):
    return g.detach().abs_().mean().item()  # harm


STATS = defaultdict(list)


class MLPBlock(nn.Module):
    def __init__(self, tag, d):
        super().__init__()
        self.tag = tag
        self.fc = nn.Linear(d, d)

    @watch(STATS)
    def forward(self, x):
        return torch.tanh(self.fc(x))


# append() returns None so the hook doesn't replace the gradient
def make():
    torch.manual_seed(26)
    STATS.clear()
    return nn.ModuleList(MLPBlock(f"b{i}", 3) for i in range(3)), torch.randn(4, 3), torch.randn(4, 3)


def run():
    blocks, x, y = make()
    for b in blocks:
        x = b(x)
    loss = (x - y).square().mean()
    loss.backward()
    print({k: v for k, v in STATS.items()})
    return {b.tag: b.fc.weight.grad for b in blocks}


# truth
def truth():
    MLPBlock.forward = lambda self, x: torch.tanh(self.fc(x))
    return run()
