"""A second train-mode pass updates running statistics in place, while backward uses the saved ones of each batch."""

# correct, oracle=clone
import torch
from torch import nn
import torch.nn.functional as F


class SimCLR(nn.Module):
    def __init__(self, d_in, d):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(d_in, d, bias=False), nn.BatchNorm1d(d, momentum=0.5), nn.ReLU(inplace=True)
        )
        self.projector = nn.Linear(d, 3)

    def forward(self, x):
        return F.normalize(self.projector(self.encoder(x)), dim=-1)


def nt_xent(z1, z2, temp=0.5):
    z = torch.cat([z1, z2])
    n = z1.size(0)
    sim = z @ z.t() / temp
    sim.fill_diagonal_(-1e4)
    labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, labels)


def augment(x, g):
    noise = torch.randn(x.shape, generator=g)
    return x + 0.3 * noise.to(x.dtype)


def make():
    torch.manual_seed(64)
    return SimCLR(4, 6), torch.randn(6, 4), torch.Generator().manual_seed(1)


def run():
    model, x, g = make()
    model.train()
    z1 = model(augment(x, g))
    z2 = model(augment(x, g))
    loss = nt_xent(z1, z2)
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}
