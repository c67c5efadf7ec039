"""Between two sequences I reset hidden.zero_() and only then call backward on the sum."""

# bug: raises-backward, tensor=hidden
# fixed: correct
# each: correct
import torch
from torch import nn


class Elman:
    def __init__(self, d_in, d_h):
        self.net = nn.ModuleDict({"x": nn.Linear(d_in, d_h), "h": nn.Linear(d_h, d_h, bias=False)})
        self.hidden = torch.zeros(1, d_h)

    def reset(self):
        self.hidden.zero_()  # [bug] harm
        self.hidden = torch.zeros_like(self.hidden)  # [fixed]
        self.hidden = self.hidden.detach()  # [each]
        self.hidden.zero_()  # [each]

    def __call__(self, xs):
        for x in xs:
            self.hidden = torch.tanh(self.net["x"](x) + self.net["h"](self.hidden))  # saves
        return self.hidden


def sequences(n):
    gen = torch.Generator().manual_seed(n)
    for _ in range(n):
        yield [torch.randn(1, 2, generator=gen) for _ in range(3)]


def make():
    torch.manual_seed(52)
    return Elman(2, 3)


def run():
    rnn = make()
    total = 0.0
    for xs in sequences(2):
        rnn.reset()
        loss = rnn(xs).pow(2).sum()
        loss.backward()  # [each]
        total = total + loss  # [bug fixed]
    total.backward()  # [bug fixed]
    return {n: p.grad for n, p in rnn.net.named_parameters()}


# truth
def truth():
    rnn = make()
    total = 0.0
    for xs in sequences(2):
        h = torch.zeros(1, 3)
        for x in xs:
            h = torch.tanh(rnn.net["x"](x) + rnn.net["h"](h))
        total = total + h.pow(2).sum()
    ns = [n for n, _ in rnn.net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(total, list(rnn.net.parameters()))))
