"""Attention weights are masked in place although softmax has saved its output."""

# raises-backward
import math
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.dk = heads, dim // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(dim, dim) for _ in range(4))

    def _split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.h, self.dk).transpose(1, 2)

    def forward(self, x, pad):
        q, k, v = self._split(self.w_q(x)), self._split(self.w_k(x)), self._split(self.w_v(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dk)
        attn = scores.softmax(dim=-1)  # saves
        # fully padded rows gave nan with -inf, so zero the probabilities instead
        attn.masked_fill_(pad[:, None, None, :], 0.0)  # harm
        ctx = (attn @ v).transpose(1, 2).reshape(x.shape)
        return self.w_o(ctx)


def make():
    torch.manual_seed(5)
    layer = MHA(8, 2)
    x = torch.randn(2, 4, 8)
    pad = torch.tensor([[False, False, False, True], [False, False, True, True]])
    return layer, x, pad


def run():
    layer, x, pad = make()
    y = layer(x, pad)
    y.pow(2).mean().backward()
    return {"w_q": layer.w_q.weight.grad, "w_v": layer.w_v.weight.grad}
