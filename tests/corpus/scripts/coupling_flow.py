"""A normalising flow: an affine coupling layer writes its second half into the input that the first half came from."""

# bug: raises-backward
# fixed: correct
import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, size, flip, width=10):
        super().__init__()
        half = size // 2
        self.keep = slice(half, None) if flip else slice(0, half)
        self.change = slice(0, half) if flip else slice(half, None)
        self.net = nn.Sequential(nn.Linear(half, width), nn.Tanh(), nn.Linear(width, 2 * half))

    def forward(self, x):
        scale, shift = self.net(x[:, self.keep]).chunk(2, dim=1)  # saves
        scale = torch.tanh(scale)
        x[:, self.change] = x[:, self.change] * scale.exp() + shift  # [bug] harm saves
        changed = x[:, self.change] * scale.exp() + shift  # [fixed]
        x = x.clone()  # [fixed]
        x[:, self.change] = changed  # [fixed]
        return x, scale.sum(1)


class ActNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return (x + self.bias) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, size=4, depth=3):
        super().__init__()
        layers = []
        for number in range(depth):
            layers += [ActNorm(size), Coupling(size, flip=number % 2 == 1)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return x, total

    def log_prob(self, x):
        z, total = self(x)
        base = -0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(1)
        return base + total


def sample(count, generator):
    """Two correlated pairs."""
    z = torch.randn(count, 4, generator=generator)
    mix = torch.tensor([[1.0, 0.6, 0, 0], [0, 0.8, 0, 0], [0, 0, 1, -0.5], [0, 0, 0, 0.9]])
    return z @ mix + 0.3


def main():
    torch.manual_seed(37)
    generator = torch.Generator().manual_seed(37)
    flow = Flow()
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for step in range(3):
        loss = -flow.log_prob(sample(10, generator)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"nll {loss.item():.5f}")


if __name__ == "__main__":
    main()
