"""The target projection is detached by choice and normalised in place before anything saves it."""

# correct, oracle=clone
import torch
from torch import nn


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 6)
        self.pred = nn.Linear(6, 6)

    def forward(self, x):
        return self.pred(torch.relu(self.f(x)))


class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 6)

    def forward(self, x):
        return self.f(x)


def l2_normalize_(v):
    v.div_(v.norm(dim=-1, keepdim=True))
    return v


def make():
    torch.manual_seed(66)
    return Online(), Target(), torch.randn(5, 4), torch.randn(5, 4)


def run():
    online, target, v1, v2 = make()
    loss = 0
    for a, b in ((v1, v2), (v2, v1)):
        p = online(a)
        t = l2_normalize_(target(b).detach())
        p = p / p.norm(dim=-1, keepdim=True)
        loss = loss + (2 - 2 * (p * t).sum(-1)).mean()
    loss.backward()
    with torch.no_grad():
        target.f.weight.mul_(0.99).add_(online.f.weight, alpha=0.01)
    return {n: p.grad for n, p in online.named_parameters()}
