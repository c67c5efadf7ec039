"""additive mask cached and edited for the next layer while the first layer's scores still need it"""

# additive: correct
# multiplicative: raises-backward, tensor=mask
# cloned: correct
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qk = nn.Linear(d, 2 * d)

    def forward(self, x, mask):
        q, k = self.qk(x).chunk(2, -1)
        s = q @ k.t()
        s = s + (mask - 1) * 1e4  # [additive]
        s = s.exp() * mask  # [multiplicative] saves
        s = s.exp() * mask.clone()  # [cloned]
        s = s.softmax(-1)  # [additive]
        s = s / s.sum(-1, keepdim=True)  # [multiplicative cloned]
        return s @ x


class Stack(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d) for _ in range(n))
        self.mask = torch.ones(3, 3).tril()

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x, self.mask)
            self.mask[-1, i] = 0  # [multiplicative] harm
            self.mask[-1, i] = 0  # [additive cloned]
        return x


def make():
    torch.manual_seed(92)
    return Stack(2, 2), torch.randn(3, 2)


def run():
    net, x = make()
    net(x).pow(2).sum().backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x = make()
    allowed = torch.ones(3, 3).tril().bool()
    for i, layer in enumerate(net.layers):
        q, k = layer.qk(x).split(2, -1)
        s = (q @ k.t()).masked_fill(~allowed, float("-inf")).softmax(-1)
        x = s @ x
        allowed = allowed.clone()
        allowed[-1, i] = False
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(x.pow(2).sum(), list(net.parameters()))))
