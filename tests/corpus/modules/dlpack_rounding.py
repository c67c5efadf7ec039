"""An exporter rounds activations in place through a DLPack alias, and exp and a linear layer have saved them."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn
from torch.utils.dlpack import from_dlpack, to_dlpack


class ActivationExporter:
    """hands activations over to another library as DLPack capsules, int8-like grid"""

    def __init__(self, levels):
        self.levels = levels
        self.exported = []

    def export(self, t):
        foreign = from_dlpack(to_dlpack(t.detach()))
        self._to_grid(foreign)
        self.exported.append(foreign)

    def _to_grid(self, t):
        t.mul_(self.levels).round_().div_(self.levels)  # harm


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, 6)
        self.out = nn.Linear(6, 2)
        self.last_hidden = None

    def forward(self, x):
        self.last_hidden = self.inp(x).exp()  # saves
        return self.out(self.last_hidden)  # saves


def make():
    torch.manual_seed(6)
    return Encoder(), ActivationExporter(levels=1), torch.randn(4, 3) * 0.3


def run():
    enc, exporter, x = make()
    loss = enc(x).pow(2).mean()
    exporter.export(enc.last_hidden)
    loss.backward()
    return {"inp": enc.inp.weight.grad, "out": enc.out.weight.grad}
