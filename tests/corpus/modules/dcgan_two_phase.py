"""The generator's loss goes through the discriminator afresh after the discriminator's step."""

# correct, oracle=clone
import torch
from torch import nn


def make():
    torch.manual_seed(51)
    G = nn.Sequential(nn.Linear(3, 6), nn.ReLU(True), nn.Linear(6, 4), nn.Tanh())
    D = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2, inplace=True), nn.Linear(6, 1))
    return {"G": G, "D": D, "real": torch.randn(8, 4), "z": torch.randn(8, 3)}


def run():
    env = make()
    G, D, real, z = (env[k] for k in ("G", "D", "real", "z"))
    crit = nn.BCEWithLogitsLoss()
    opt_d = torch.optim.SGD(D.parameters(), lr=0.2)
    opt_g = torch.optim.SGD(G.parameters(), lr=0.2)
    label = torch.full((8, 1), 1.0)

    # (1) discriminator: real then fake, label tensor is reused
    opt_d.zero_grad()
    crit(D(real), label).backward()
    fake = G(z)
    label.fill_(0.0)
    crit(D(fake.detach()), label).backward()
    opt_d.step()

    # (2) generator
    opt_g.zero_grad()
    label.fill_(1.0)
    errG = crit(D(fake), label)
    errG.backward()
    opt_g.step()
    return {n: p.grad for n, p in G.named_parameters()}
