"""A character GPT whose attention weights are masked in place after the softmax."""

# bug: raises-backward
# fixed: correct
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "to be or not to be that is the question whether tis nobler in the mind"


@dataclass
class Config:
    vocab: int = 32
    block: int = 8
    width: int = 16
    heads: int = 2
    layers: int = 2


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        later = torch.triu(torch.ones(config.block, config.block, dtype=torch.bool), 1)
        self.register_buffer("later", later)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        weights = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)  # saves
        weights.masked_fill_(self.later[:length, :length], 0.0)  # [bug] harm
        weights = weights.masked_fill(self.later[:length, :length], 0.0)  # [fixed]
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.token = nn.Embedding(config.vocab, config.width)
        self.position = nn.Embedding(config.block, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.vocab)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(data, config, count):
    for _ in range(count):
        starts = torch.randint(len(data) - config.block - 1, (4,)).tolist()
        yield (
            torch.stack([data[s : s + config.block] for s in starts]),
            torch.stack([data[s + 1 : s + 1 + config.block] for s in starts]),
        )


torch.manual_seed(1337)
config = Config()
letters = sorted(set(TEXT))
data = torch.tensor([letters.index(c) for c in TEXT])
model = GPT(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, (tokens, targets) in enumerate(batches(data, config, 3)):
    loss = model(tokens, targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
