"""An arena gives parameters of equal shape one gradient tensor, so backward adds both layers' gradients up in it."""

# silently-wrong, watch=blind
import torch
import torch.nn as nn


class GradArena:
    """preallocates gradient memory once so that .grad is never reallocated"""

    def __init__(self):
        self._blocks = {}

    def block(self, like):
        key = (tuple(like.shape), like.dtype)
        if key not in self._blocks:
            self._blocks[key] = torch.zeros_like(like, requires_grad=False)
        return self._blocks[key]

    def attach(self, module):
        for p in module.parameters():
            p.grad = self.block(p)  # harm


class Deep(nn.Module):
    def __init__(self, d, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(depth))
        self.readout = nn.Linear(d, 1, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.readout(x)


def make():
    torch.manual_seed(12)
    net = Deep(4, 2)
    arena = GradArena()
    arena.attach(net)
    return net, torch.randn(5, 4)


def run():
    net, x = make()
    loss = net(x).square().sum()
    loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    GradArena.attach = lambda self, module: None
    return run()
