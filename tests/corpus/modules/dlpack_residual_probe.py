"""An output that nobody saved is written through DLPack before its mean is differentiated."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.utils.dlpack import to_dlpack, from_dlpack


class Probe:
    """Looks at activations through DLPack (our plotting stack is not torch) and
    normalises them in that memory before plotting."""

    def __init__(self):
        self.peaks = []

    def __call__(self, act):
        shared = from_dlpack(to_dlpack(act.detach()))
        shared.sub_(shared.mean()).div_(shared.abs().max())
        self.peaks.append(shared.max().item())


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)

    def forward(self, x):
        return self.b(self.a(x).tanh()) + x


def make():
    torch.manual_seed(6)
    d = 4
    return nn.Linear(3, d), Residual(d), torch.randn(5, 3), Probe()


def run():
    stem, block, x, probe = make()
    out = block(stem(x))
    loss = out.mean(0).pow(2).sum()
    probe(out)
    loss.backward()
    return {"stem": stem.weight.grad, "a": block.a.weight.grad, "b": block.b.weight.grad}
