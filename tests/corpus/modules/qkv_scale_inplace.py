"""The query is one of several views that unbind returned, which may not be written in place."""

# raises-forward
import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q *= self.scale
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        y = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(y)


def make():
    torch.manual_seed(12)
    return SelfAttention(8, 2), torch.randn(2, 5, 8)


def run():
    attn, x = make()
    loss = attn(x).pow(2).mean()
    loss.backward()
    return {"qkv": attn.qkv.weight.grad, "proj": attn.proj.weight.grad}
