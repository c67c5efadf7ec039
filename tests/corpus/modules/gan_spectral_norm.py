"""The fake batch is detached for the critic, whose step comes before the generator's pass; spectral_norm clones its vectors."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm


class GAN:
    def __init__(self, z=3, d=4):
        self.z = z
        self.G = nn.Sequential(nn.Linear(z, 8), nn.BatchNorm1d(8), nn.ReLU(True), nn.Linear(8, d))
        self.D = nn.Sequential(
            spectral_norm(nn.Linear(d, 8)), nn.LeakyReLU(0.2, inplace=True), spectral_norm(nn.Linear(8, 1))
        )
        self.optG = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.optD = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.bce = nn.BCEWithLogitsLoss()

    def d_step(self, real, fake):
        self.optD.zero_grad()
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(fake), 1)
        # two passes through D before a single backward: u/v get power-iterated twice
        lossD = self.bce(self.D(real), ones) + self.bce(self.D(fake.detach()), zeros)
        lossD.backward()
        self.optD.step()
        return lossD

    def g_step(self, fake):
        self.optG.zero_grad()
        lossG = self.bce(self.D(fake), torch.ones(len(fake), 1))
        lossG.backward()
        gradG = {f"G{i}": p.grad.clone() for i, p in enumerate(self.G.parameters()) if i in (0, 2, 4)}
        self.optG.step()
        return lossG, gradG


def make():
    torch.manual_seed(55)
    return GAN(), torch.randn(10, 4) * 2 + 1


def run():
    gan, real = make()
    for _ in range(3):
        fake = gan.G(torch.randn(len(real), gan.z))
        lossD = gan.d_step(real, fake)
        lossG, gradG = gan.g_step(fake)
    return gradG
