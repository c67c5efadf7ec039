"""One half of a rotary embedding is among several views that chunk returned, which may not be written in place."""

# raises-forward
import torch
import torch.nn as nn


def rotate_pairs(t, cos, sin):
    a, b = t.chunk(2, dim=-1)
    old_a = a.clone()
    a.mul_(cos).sub_(b * sin)
    b.mul_(cos).add_(old_a * sin)
    return t


class RotaryHead(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.proj = nn.Linear(d, 2 * d)
        self.d = d

    def forward(self, x):
        n = x.shape[0]
        ang = torch.arange(n)[:, None] * torch.ones(self.d // 2) * 0.1
        q, k = self.proj(x).split(self.d, dim=-1)
        q = rotate_pairs(q.contiguous(), ang.cos(), ang.sin())
        return q @ k.t()


def make():
    torch.manual_seed(70)
    return RotaryHead(4), torch.randn(5, 4)


def run():
    head, x = make()
    head(x).softmax(-1).diagonal().log().sum().neg().backward()
    return {"proj": head.proj.weight.grad}
