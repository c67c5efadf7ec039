"""Every in-place write is tracked by autograd and hits a tensor whose old value no backward needs."""

# correct, oracle=clone
import torch
import torch.nn as nn


class PreActBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1 = nn.Conv1d(c, c, 3, padding=1)
        self.c2 = nn.Conv1d(c, c, 3, padding=1)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y = self.c1(x)
        y.relu_()
        y = self.c2(y)
        y.mul_(self.scale)
        y += x
        return y


class Tower(nn.Sequential):
    def __init__(self, c, n):
        super().__init__(*[PreActBlock(c) for _ in range(n)])


def pool(feat, lengths):
    feat = feat.cumsum(-1)
    for row, n in zip(feat.unbind(0), lengths):
        yield row[:, n - 1] / n


def make():
    torch.manual_seed(85)
    return Tower(2, 3), torch.randn(3, 2, 7), [7, 4, 5]


def run():
    tower, x, lengths = make()
    feat = tower(x)
    feat[:, :, -1] = 0.0
    pooled = torch.stack(list(pool(feat, lengths)))
    pooled.exp().sum().backward()
    return {n: p.grad for n, p in tower.named_parameters()}
