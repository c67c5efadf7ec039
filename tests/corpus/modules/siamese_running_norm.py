"""Running statistics move between two calls, but the graph has saved only a fresh square root of them."""

# correct, oracle=clone
import torch
from torch import nn


class RunningNorm(nn.Module):
    """Normalises by running moments (RL style), which move on every call."""

    def __init__(self, dim, rho=0.9):
        super().__init__()
        self.rho = rho
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(self.rho).add_(x.mean(0), alpha=1 - self.rho)
                self.var.mul_(self.rho).add_(x.var(0), alpha=1 - self.rho)
                self.count += 1
        return (x - self.mean) / torch.sqrt(self.var + 1e-5)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RunningNorm(4)
        self.enc = nn.Sequential(nn.Linear(4, 6), nn.ELU(inplace=True), nn.Linear(6, 3))

    def forward(self, left, right):
        return self.enc(self.norm(left)), self.enc(self.norm(right))


def make():
    torch.manual_seed(40)
    # leading layer so that something differentiable flows *into* the norm
    return nn.Linear(5, 4), Siamese(), torch.randn(8, 5), torch.randn(8, 5)


def run():
    proj, net, a, b = make()
    za, zb = net(proj(a), proj(b))
    loss = 1 - torch.cosine_similarity(za, zb).mean()
    loss.backward()
    return {"proj": proj.weight.grad, "enc0": net.enc[0].weight.grad}
