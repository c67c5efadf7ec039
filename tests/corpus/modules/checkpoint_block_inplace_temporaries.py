"""A checkpointed bottleneck writes in place only into temporaries, so its recomputation repeats the same values."""

# correct
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


def maybe_ckpt(enabled):
    def deco(method):
        def inner(self, *args):
            if not (enabled and self.training):
                return method(self, *args)
            return checkpoint(method, self, *args, use_reentrant=False)

        return inner

    return deco


class Bottleneck(nn.Module):
    def __init__(self, d, r):
        super().__init__()
        self.a, self.b = nn.Linear(d, r), nn.Linear(r, d)
        self.gain = nn.Parameter(torch.tensor(0.5))

    @maybe_ckpt(enabled=True)
    def forward(self, x):
        h = self.a(x).relu_()
        h = self.b(h)
        h *= self.gain
        h += x
        return h


def make():
    torch.manual_seed(70)
    return nn.ModuleList([Bottleneck(4, 3) for _ in range(3)]), torch.randn(5, 4)


def run():
    blocks, x = make()
    inp = x.clone()
    for blk in blocks:
        x = blk(x)
    inp.zero_()
    loss = x.logsumexp(-1).mean()
    loss.backward()
    return {f"{i}.{n}": p.grad for i, b in enumerate(blocks) for n, p in b.named_parameters()}


# truth
def truth():
    global checkpoint
    checkpoint = lambda function, *inputs, use_reentrant: function(*inputs)
    return run()
