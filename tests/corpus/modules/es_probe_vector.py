"""vector_to_parameters gives each parameter new memory, while the linear layers saved views of the old memory."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Probe:
    def __init__(self, net, sigma):
        self.net, self.sigma = net, sigma

    def __call__(self, loss_fn, generator):
        theta = parameters_to_vector(self.net.parameters()).detach()
        eps = torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        vector_to_parameters(theta + self.sigma * eps, self.net.parameters())
        loss = loss_fn(self.net)
        vector_to_parameters(theta, self.net.parameters())
        return loss


def antithetic(probe, loss_fn, seeds):
    return sum(probe(loss_fn, torch.Generator().manual_seed(s)) for s in seeds) / len(seeds)


def make():
    torch.manual_seed(88)
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    return Probe(net, 0.4), torch.randn(8, 3), torch.randn(8, 1)


def run():
    probe, x, y = make()
    loss = antithetic(probe, lambda f: (f(x) - y).pow(2).mean(), seeds=[1, 2])
    loss.backward()
    return {n: p.grad for n, p in probe.net.named_parameters()}
