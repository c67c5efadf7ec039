"""A division saves the running deviation itself, which the second call moves in place."""

# raises-backward
import torch
from torch import nn


class RunningScale(nn.Module):
    """Divides by a running standard deviation, which moves on every call."""

    def __init__(self, dim, rho=0.9):
        super().__init__()
        self.rho = rho
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(self.rho).add_(x.mean(0), alpha=1 - self.rho)
                self.std.lerp_(x.std(0), 1 - self.rho)  # harm
        return (x - self.mean) / self.std  # saves


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RunningScale(4)
        self.enc = nn.Sequential(nn.Linear(4, 6), nn.ELU(), nn.Linear(6, 3))

    def forward(self, left, right):
        return self.enc(self.norm(left)), self.enc(self.norm(right))


def make():
    torch.manual_seed(40)
    return nn.Linear(5, 4), Siamese(), torch.randn(8, 5), torch.randn(8, 5)


def run():
    proj, net, a, b = make()
    za, zb = net(proj(a), proj(b))
    loss = 1 - torch.cosine_similarity(za, zb).mean()
    loss.backward()
    return {"proj": proj.weight.grad, "enc0": net.enc[0].weight.grad}
