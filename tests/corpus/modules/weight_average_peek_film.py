"""Averaged parameters are swapped in through .data for a peek, and backward runs before they are swapped out."""

# silently-wrong, oracle=clone
import torch
from torch import nn


def swap_in(params, storage):
    """exchange raw tensors, returns the old ones"""
    old = [p.data for p in params]
    for p, s in zip(params, storage):
        p.data = s  # harm
    return old


class FiLMStack(nn.Module):
    def __init__(self, c, n):
        super().__init__()
        self.scale = nn.ParameterDict({f"s{i}": nn.Parameter(1 + 0.3 * torch.randn(c)) for i in range(n)})
        self.shift = nn.ParameterDict({f"b{i}": nn.Parameter(0.1 * torch.randn(c)) for i in range(n)})

    def forward(self, x):
        for s, b in zip(self.scale.values(), self.shift.values()):
            x = torch.tanh(x * s + b)  # saves
        return x


def criterion(net, x, y):
    return (net(x) - y).pow(2).mean()


def make():
    torch.manual_seed(29)
    net = FiLMStack(4, 3)
    avg = [torch.full_like(p, 0.5) for p in net.parameters()]
    return net, avg, torch.randn(8, 4), torch.rand(8, 4)


def run():
    net, avg, x, y = make()
    params = list(net.parameters())
    loss = criterion(net, x, y)
    backup = swap_in(params, avg)
    try:
        peek = criterion(net, x, y).item()
        loss.backward()
    finally:
        swap_in(params, backup)
    print(f"loss {loss.item():.4f}  swa {peek:.4f}")
    return {k: p.grad for k, p in net.scale.named_parameters()}
