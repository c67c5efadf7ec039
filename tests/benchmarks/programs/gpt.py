# ruff: noqa: D101, D102, D103 - a script such as people write
"""A GPT of four layers, trained for some iterations; with `--harmful`, each attention writes into the softmax that backward needs."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional

HARMFUL = False


class Attention(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (one.view(b, t, self.heads, c // self.heads).transpose(1, 2) for one in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = functional.softmax(att, dim=-1)
        if HARMFUL:
            att.data.mul_(0.9)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, block)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, width=64, heads=4, layers=4, block=32):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads, block) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, index, targets):
        x = self.tokens(index) + self.positions(torch.arange(index.size(1)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    global HARMFUL
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--harmful", action="store_true")
    options = parser.parse_args()
    HARMFUL = options.harmful
    torch.manual_seed(1337)
    text = torch.randint(0, 65, (10000,))
    model = GPT(65)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(options.steps):
        at = torch.randint(0, len(text) - 33, (8,))
        x = torch.stack([text[i : i + 32] for i in at])
        y = torch.stack([text[i + 1 : i + 33] for i in at])
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())


main()
