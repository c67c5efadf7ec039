"""Evaluate with the averaged weights in the middle of a step: swap in, evaluate, swap out."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# copied: correct
from contextlib import contextmanager

import torch
from torch import nn


class Ema:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = [p.detach().clone() * 0.9 for p in model.parameters()]

    @contextmanager
    def average_parameters(self):
        backup = [p.data for p in self.model.parameters()]  # [bug fixed]
        backup = [p.data.clone() for p in self.model.parameters()]  # [copied]
        for p, s in zip(self.model.parameters(), self.shadow):
            p.data = s  # [bug] harm
            p.data = s  # [fixed]
            p.data.copy_(s)  # [copied]
        yield self.model
        for p, b in zip(self.model.parameters(), backup):
            p.data = b  # [fixed]
            p.data.copy_(b)  # [copied]
            pass


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return (torch.tanh(x @ self.W) * (x @ (self.W * self.W))).sum(1)


def make():
    torch.manual_seed(22)
    return Energy(), torch.randn(4, 3)


def run():
    model, x = make()
    ema = Ema(model, 0.99)
    loss = model(x).mean()
    with ema.average_parameters() as averaged, torch.no_grad():
        validation = averaged(x).mean().item()
    loss.backward()
    assert validation == validation
    return {"W": model.W.grad}


# truth
def truth():
    model, x = make()
    W = model.W.detach().clone().requires_grad_()
    y = ((x @ W).tanh() * (x @ W.pow(2))).sum(1).mean()
    return {"W": torch.autograd.grad(y, W)[0]}
