"""Metric learning: fill the diagonal of the distance matrix with infinity."""

# bug: raises-backward, tensor=d
# fixed: correct
# squared: correct
# detached: raises-backward, tensor=d
import torch
from torch import nn


def pairwise(z):
    return torch.cdist(z, z + 0.01)  # [bug detached] saves
    return torch.cdist(z, z + 0.01)  # [fixed]
    return ((z[:, None] - z[None]) ** 2).sum(-1)  # [squared]


class HardNegative:
    def __init__(self, margin):
        self.margin = margin

    def mine(self, d):
        eye = torch.eye(len(d), dtype=torch.bool)
        d[eye] = float("inf")  # [bug] harm
        d[eye] = float("inf")  # [squared]
        d.detach()[eye] = float("inf")  # [detached] harm
        d = d.masked_fill(eye, float("inf"))  # [fixed]
        return d.min(1)

    def __call__(self, z):
        d = pairwise(z)
        nearest, index = self.mine(d)
        return torch.relu(self.margin - nearest).sum(), index


def make():
    torch.manual_seed(38)
    return nn.Linear(2, 2), torch.randn(4, 2), HardNegative(5.0)


def run():
    net, x, criterion = make()
    loss, index = criterion(net(x))
    loss.backward()
    return {"w": net.weight.grad}


# truth
def truth():
    net, x, criterion = make()
    z = net(x)
    d = ((z[:, None] - z[None] - 0.01) ** 2).sum(-1).sqrt()  # [bug fixed detached]
    d = (z[:, None] - z[None]).pow(2).sum(-1)  # [squared]
    d = torch.where(torch.eye(4).bool(), torch.tensor(1e9), d)
    loss = (5.0 - d.min(1).values).relu().sum()
    return {"w": torch.autograd.grad(loss, net.weight)[0]}
