"""The second view's update writes, with out=, the covariance matrix that the first view's matmul saved."""

# raises-backward
import torch
import torch.nn as nn


class RunningCov:
    def __init__(self, d, momentum=0.1):
        self.value = torch.eye(d)
        self.m = momentum

    def update(self, z):
        z = z.detach() - z.detach().mean(0)
        c = z.t() @ z / len(z)
        torch.lerp(self.value, c, self.m, out=self.value)  # harm
        return self.value


def decorrelation(cov, z):
    """mahalanobis-like energy of the batch"""
    return (z @ cov * z).sum(-1).mean()  # saves


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)
        self.cov = RunningCov(3)

    def forward(self, view):
        z = self.net(view)
        return decorrelation(self.cov.update(z), z)


def make():
    torch.manual_seed(53)
    x = torch.randn(10, 4)
    return Projector(), [x + 0.1 * torch.randn_like(x) for _ in range(2)]


def run():
    proj, views = make()
    loss = sum(proj(v) for v in views)
    loss.backward()
    return {"w": proj.net.weight.grad}
