"""The forward of the whole model sits under no_grad, or only the part that should."""

# bug: raises-backward
# fixed: correct
# untracked: silently-wrong, tensor=features, watch=blind
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.head = nn.Linear(4, 1)

    @torch.no_grad()  # [fixed bug]
    def features(self, x):
        return torch.tanh(self.backbone(x))

    def forward(self, x):
        with torch.no_grad():  # [bug]
            return self.head(self.features(x) * self.scale)  # [bug]
        features = self.backbone(x)  # [untracked]
        with torch.no_grad():  # [untracked]
            features.mul_(0.5)  # [untracked] harm
        features = features  # [untracked]
        features = self.features(x)  # [fixed]
        return self.head(features * self.scale)


def make():
    torch.manual_seed(191)
    return Probe(), torch.randn(5, 3), torch.randn(5, 1)


def run():
    probe, x, y = make()
    loss = (probe(x) - y).pow(2).mean()
    loss.backward()
    return {"backbone": probe.backbone.weight.grad, "head": probe.head.weight.grad}


# truth
def truth():
    probe, x, y = make()
    features = torch.tanh(probe.backbone(x)).detach()  # [bug fixed]
    features = probe.backbone(x) * 0.5  # [untracked]
    loss = (probe.head(features * probe.scale) - y).pow(2).mean()
    backbone, head = torch.autograd.grad(loss, [probe.backbone.weight, probe.head.weight], allow_unused=True)
    return {"backbone": backbone, "head": head}
