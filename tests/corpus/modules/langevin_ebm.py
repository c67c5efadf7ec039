"""Energy-based model with persistent chains (PCD): Langevin steps on the replay samples."""

# chain_first: correct
# chain_late: silently-wrong, tensor=samples
# detached_chain: correct
import torch
from torch import nn


class Chains:
    def __init__(self, n, d, gen):
        self.x = torch.randn(n, d, generator=gen)
        self.gen = gen

    def langevin(self, energy, steps=2, size=0.1):
        for _ in range(steps):
            x = self.x.detach().clone().requires_grad_()
            (g,) = torch.autograd.grad(energy(x).sum(), x)
            noise = torch.randn(g.shape, generator=self.gen) * 0.01
            self.x.data.add_(g, alpha=-size).add_(noise)  # [chain_late] harm
            self.x.data.add_(g, alpha=-size).add_(noise)  # [chain_first]
            self.x = self.x - size * g + noise  # [detached_chain]
        return self.x


def make():
    torch.manual_seed(76)
    gen = torch.Generator().manual_seed(3)
    energy = nn.Sequential(nn.Linear(2, 5), nn.SELU(), nn.Linear(5, 1))
    return energy, Chains(4, 2, gen), torch.randn(4, 2)


def run():
    energy, chains, data = make()
    samples = chains.langevin(energy)  # [chain_first detached_chain]
    samples = chains.x  # [chain_late]
    pos, neg = energy(data), energy(samples)  # [chain_late] saves
    pos, neg = energy(data), energy(samples)  # [chain_first detached_chain]
    chains.langevin(energy)  # [chain_late detached_chain]
    loss = (pos - neg).mean() + 0.1 * (pos**2 + neg**2).mean()
    loss.backward()
    return {n: p.grad for n, p in energy.named_parameters()}


# truth
def truth():
    energy, chains, data = make()
    x = chains.x.clone()
    for _ in range(2):  # [chain_first detached_chain]
        q = x.clone().requires_grad_()  # [chain_first detached_chain]
        (g,) = torch.autograd.grad(energy(q).sum(), q)  # [chain_first detached_chain]
        x = x - 0.1 * g + torch.randn(g.shape, generator=chains.gen) * 0.01  # [chain_first detached_chain]
    pos, neg = energy(data), energy(x)
    loss = (pos - neg).mean() + 0.1 * (pos**2 + neg**2).mean()
    ns = [n for n, _ in energy.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(loss, list(energy.parameters()))))
