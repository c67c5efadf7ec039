"""Leaving a context writes the fast weights back through .data before the backward of a loss that used the slow ones."""

# silently-wrong, oracle=clone
import contextlib
import torch
import torch.nn as nn


class SlowWeights:
    def __init__(self, net, beta=0.9):
        self.net = net
        self.beta = beta
        self.slow = [p.detach().clone() * beta for p in net.parameters()]
        self.fast = None

    @contextlib.contextmanager
    def applied(self):
        self._swap_in()
        try:
            yield self.net
        finally:
            self._swap_out()

    def _swap_in(self):
        self.fast = [p.detach().clone() for p in self.net.parameters()]
        for p, s in zip(self.net.parameters(), self.slow):
            p.data.copy_(s)

    def _swap_out(self):
        for p, f in zip(self.net.parameters(), self.fast):
            p.data.copy_(f)  # harm
        self.fast = None


def make():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    return net, SlowWeights(net), torch.randn(5, 4), torch.randn(5, 2)


def run():
    net, averager, x, target = make()
    with averager.applied() as slow_net:
        pred = slow_net(x)  # saves
        loss = ((pred - target) ** 2).mean()
    loss.backward()
    return {"w0": net[0].weight.grad, "w2": net[2].weight.grad}
