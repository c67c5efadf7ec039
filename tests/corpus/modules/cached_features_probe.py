"""A cached inference tensor is first centred outside of inference mode, and only the ordinary result is saved."""

# correct, oracle=clone
import torch
import torch.nn as nn


class FeatureCache:
    def __init__(self, backbone):
        self.backbone = backbone.eval()
        self._mem = {}

    @torch.inference_mode()
    def _compute(self, x):
        return self.backbone(x)

    def __call__(self, key, x):
        if key not in self._mem:
            self._mem[key] = self._compute(x)
        return self._mem[key]


class Probe(nn.Module):
    def __init__(self, cache, d, n):
        super().__init__()
        self.cache = cache
        self.scale = nn.Parameter(torch.ones(d))
        self.head = nn.Linear(d, n)

    def forward(self, key, x):
        f = self.cache(key, x)
        f = f - f.mean(0)
        g = f * self.scale
        return self.head(g)


def make():
    torch.manual_seed(71)
    backbone = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
    return Probe(FeatureCache(backbone), 5, 3), torch.randn(8, 6), torch.randint(0, 3, (8,))


def run():
    probe, x, y = make()
    for epoch in range(2):
        loss = nn.functional.cross_entropy(probe("train", x), y)
        loss.backward()
    return {"scale": probe.scale.grad, "head": probe.head.weight.grad}
