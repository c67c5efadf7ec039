"""Scores are scaled and masked in place before softmax, and the product that made them did not save its result."""

# correct, oracle=clone
import math, torch
import torch.nn as nn


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).triu_(1)


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        assert d % h == 0
        self.h = h
        self.proj = nn.ModuleDict({n: nn.Linear(d, d, bias=False) for n in "qkvo"})

    def heads(self, name, x):
        b, t, d = x.shape
        return self.proj[name](x).view(b, t, self.h, d // self.h).transpose(1, 2)

    def forward(self, x, lengths):
        q, k, v = (self.heads(n, x) for n in "qkv")
        att = q @ k.transpose(-1, -2)
        att /= math.sqrt(q.size(-1))
        att.masked_fill_(causal(x.size(1)), float("-inf"))
        pad = torch.arange(x.size(1))[None, :] >= lengths[:, None]
        att.masked_fill_(pad[:, None, None, :], -1e9)
        y = att.softmax(-1) @ v
        return self.proj["o"](y.transpose(1, 2).flatten(2))


def make():
    torch.manual_seed(18)
    return MHA(4, 2), torch.randn(2, 5, 4), torch.tensor([5, 3])


def run():
    mha, x, lengths = make()
    out = mha(x, lengths)
    out[1, 3:] = 0
    loss = out.pow(2).sum()
    loss.backward()
    return {n: p.grad for n, p in mha.named_parameters()}
