"""Backward runs inside the context, before the averaged weights are swapped out again."""

# correct, oracle=clone
import torch
from torch import nn


class swapped:
    """with swapped(net, shadow): ... runs the block with the shadow weights"""

    def __init__(self, net, shadow):
        self.pairs = list(zip(net.parameters(), shadow))

    def _exchange(self):
        for p, s in self.pairs:
            tmp = p.data.clone()
            p.data.copy_(s)
            s.copy_(tmp)

    def __enter__(self):
        self._exchange()

    def __exit__(self, *exc):
        self._exchange()
        return False


def closure(net, x, y):
    loss = nn.functional.smooth_l1_loss(net(x), y)
    net.zero_grad()
    loss.backward()
    return loss.detach()


def extragradient(net, shadow, x, y):
    with swapped(net, shadow):
        value = closure(net, x, y)
    return value


def make():
    torch.manual_seed(82)
    net = nn.Sequential(nn.Linear(3, 5), nn.SiLU(), nn.Linear(5, 1))
    shadow = [p.detach() + 0.3 * torch.randn_like(p) for p in net.parameters()]
    return net, shadow, torch.randn(6, 3), torch.randn(6, 1)


def run():
    net, shadow, x, y = make()
    extragradient(net, shadow, x, y)
    return {n: p.grad for n, p in net.named_parameters()}
