"""A forward pre-hook adds noise in place to its argument, the output that sigmoid has saved."""

# raises-backward
import torch
import torch.nn as nn


class FeatureNoise:
    """adds noise to whatever goes into the given layers (registered as pre hook)"""

    def __init__(self, std):
        self.std = std
        self.handles = []

    def attach(self, *layers):
        self.handles += [l.register_forward_pre_hook(self.perturb) for l in layers]
        return self

    def perturb(self, layer, args):
        (inp,) = args
        if layer.training:
            inp += self.std * torch.randn_like(inp)  # harm


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 6)
        self.act = nn.Sigmoid()
        self.b = nn.Linear(6, 6)
        self.c = nn.Linear(6, 2)

    def forward(self, x):
        x = self.act(self.a(x))  # saves
        return self.c(nn.functional.softplus(self.b(x)))


def make():
    torch.manual_seed(59)
    net = Mlp()
    return net, FeatureNoise(0.05).attach(net.b, net.c), torch.randn(7, 3)


def run():
    net, noise, x = make()
    net(x).square().mean().backward()
    return {n: p.grad for n, p in net.named_parameters()}
