"""Bucketed gradients: both parameters got the same slice of the bucket (off-by-one in the offset)."""

# overlap: silently-wrong, watch=blind
# disjoint: correct
import torch
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = list(params)
        self.flat = torch.zeros(sum(p.numel() for p in self.params))

    def attach(self):
        offset = 0
        for p in self.params:
            view = self.flat[offset : offset + p.numel()]
            p.grad = view.view_as(p)  # [overlap] harm
            p.grad = view.view_as(p)  # [disjoint]
            offset += p.numel() - 1  # [overlap]
            offset += p.numel()  # [disjoint]

    def average(self, world):
        self.flat.div_(world)


def make():
    torch.manual_seed(86)
    return nn.Linear(2, 2), torch.randn(3, 2)


def run():
    layer, x = make()
    bucket = Bucket(layer.parameters())
    bucket.attach()
    layer(x).pow(3).sum().backward()
    bucket.average(1)
    return {n: p.grad for n, p in layer.named_parameters()}


# truth
def truth():
    layer, x = make()
    w, b = torch.autograd.grad((x @ layer.weight.t() + layer.bias).pow(3).sum(), [layer.weight, layer.bias])
    return {"weight": w, "bias": b}
