"""Setting a layer's norm bound rescales its weights through .data between forward and backward."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn
import torch.nn.functional as F


class BoundedLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in))
        self._bound = None

    @property
    def bound(self):
        return self._bound

    @bound.setter
    def bound(self, value):
        self._bound = value
        norm = self.weight.data.norm()
        if norm > value:
            self.weight.data.mul_(value / norm)  # harm

    def forward(self, x):
        return F.linear(x, self.weight)  # saves


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = BoundedLinear(3, 5)
        self.head = BoundedLinear(5, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def lipschitz_schedule(critic, step):
    for m in critic.children():
        m.bound = 1.0 / (1 + step)


def make():
    torch.manual_seed(4)
    return Critic(), torch.randn(7, 3), torch.randn(7, 3)


def run():
    critic, real, fake = make()
    for step in range(1):
        loss = critic(fake).mean() - critic(real).mean()
        lipschitz_schedule(critic, step)
        loss.backward()
    return {n: p.grad for n, p in critic.named_parameters()}
