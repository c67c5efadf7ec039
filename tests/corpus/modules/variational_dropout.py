"""Locked dropout: the same mask tensor is re-drawn for every step of the unrolled RNN."""

# bug: raises-backward, tensor=mask
# fixed: correct
# locked: correct
import torch
from torch import nn


class LockedDropout:
    def __init__(self, p, shape):
        self.p = p
        self.mask = torch.empty(shape)
        self.rng = torch.Generator().manual_seed(0)

    def redraw(self):
        self.mask.bernoulli_(1 - self.p, generator=self.rng).div_(1 - self.p)  # [bug] harm
        self.mask = torch.empty_like(self.mask).bernoulli_(1 - self.p, generator=self.rng) / (1 - self.p)  # [fixed]
        self.mask.bernoulli_(1 - self.p, generator=self.rng).div_(1 - self.p)  # [locked]

    def __call__(self, x):
        return x * self.mask  # [bug] saves
        return x * self.mask  # [fixed locked]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.i2h, self.h2h = nn.Linear(2, 4), nn.Linear(4, 4)
        self.drop = LockedDropout(0.5, (1, 4))

    def forward(self, xs):
        h = xs.new_zeros(1, 4)
        self.drop.redraw()  # [locked]
        for x in xs.unbind():
            self.drop.redraw()  # [bug fixed]
            h = torch.tanh(self.i2h(x[None]) + self.h2h(self.drop(h)))
        return h


def make():
    torch.manual_seed(16)
    return Model(), torch.randn(3, 2)


def run():
    model, xs = make()
    model(xs).sum().backward()
    return {n: p.grad for n, p in model.named_parameters()}


# truth
def truth():
    model, xs = make()
    rng, h = torch.Generator().manual_seed(0), torch.zeros(1, 4)
    mask = torch.empty(1, 4).bernoulli_(0.5, generator=rng) * 2  # [locked]
    for x in xs:
        mask = torch.empty(1, 4).bernoulli_(0.5, generator=rng) * 2  # [fixed bug]
        h = torch.tanh(model.i2h(x[None]) + model.h2h(h * mask))
    ns = [n for n, _ in model.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(h.sum(), list(model.parameters()))))
