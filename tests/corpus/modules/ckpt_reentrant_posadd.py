"""A reentrant checkpoint hands the recomputation a detached leaf, and x += pos writes into it."""

# raises-backward
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Linear(d, d)
        self.register_buffer("pos", torch.linspace(-1, 1, d))

    def forward(self, x):
        x += self.pos
        h = self.norm(x)
        return torch.tanh(self.fc(h))


class Net(nn.Module):
    def __init__(self, d=6, depth=2):
        super().__init__()
        self.inp = nn.Linear(3, d)
        self.layers = nn.ModuleList([Layer(d) for _ in range(depth)])

    def forward(self, x):
        h = self.inp(x)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=True)
        return h.sum(-1)


def make():
    torch.manual_seed(17)
    return Net(), torch.randn(5, 3), torch.randn(5)


def run():
    net, x, y = make()
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    return {"inp": net.inp.weight.grad, "fc0": net.layers[0].fc.weight.grad}
