"""Observations are normalised with running statistics that are updated in place between forward and backward."""

# bug: raises-backward, tensor=var
# fixed: correct
# shifted: correct
# batchnorm: correct
import torch
from torch import nn


class Normaliser(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.gain = nn.Parameter(torch.ones(size))

    def forward(self, x):
        if self.training:
            self.update(x.detach())
        return self.gain * (x - self.mean) / self.var  # [bug] saves
        return self.gain * (x - self.mean) / self.var  # [fixed]
        return self.gain * (x - self.mean) / (self.var + 1e-3)  # [shifted]

    def update(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        self.var.lerp_(x.var(0), 0.1)  # [bug] harm
        self.var.lerp_(x.var(0), 0.1)  # [shifted]
        self.var = torch.lerp(self.var, x.var(0), 0.1)  # [fixed]


def make():
    torch.manual_seed(97)
    first = nn.Linear(3, 3)
    norm = Normaliser(3)  # [bug fixed shifted]
    norm = nn.BatchNorm1d(3, affine=False)  # [batchnorm]
    return first, norm, torch.randn(2, 6, 3)


def run():
    first, norm, batches = make()
    losses = []
    for batch in batches:
        losses.append(norm(first(batch)).tanh().mean())
    loss = torch.stack(losses).sum() + losses[0] ** 2
    loss.backward()
    return {"weight": first.weight.grad}


# truth
def truth():
    first, norm, batches = make()
    mean, var, losses = torch.zeros(3), torch.ones(3), []
    for batch in batches:
        x = first(batch)
        mean = torch.lerp(mean, x.detach().mean(0), 0.1)
        var = torch.lerp(var, x.detach().var(0), 0.1)
        y = (x - mean) / var
        y = (x - mean) / (var + 1e-3)  # [shifted]
        y = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()  # [batchnorm]
        losses.append(y.tanh().mean())
    loss = losses[0] + losses[1] + losses[0] ** 2
    return {"weight": torch.autograd.grad(loss, first.weight)[0]}
