"""A transformer encoder that is right: scores are masked in place before the softmax, and positions are added in place."""

# correct
import math

import torch
import torch.nn.functional as F
from torch import nn


class Positions(nn.Module):
    def __init__(self, width, longest=16):
        super().__init__()
        place = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(100.0) / width))
        table = torch.zeros(longest, width)
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        x += self.table[: x.size(1)]
        return x


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, padding):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scores /= math.sqrt(q.size(-1))
        scores.masked_fill_(padding[:, None, None, :], float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(inplace=True), nn.Linear(2 * width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x, padding):
        x = self.norm1(x + self.drop(self.attention(x, padding)))
        y = self.drop(self.feed(x))
        y += x
        return self.norm2(y)


class Sentiment(nn.Module):
    def __init__(self, vocab=15, width=8):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocab, width, padding_idx=0), Positions(width)
        self.layers = nn.ModuleList(Layer(width, 2) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.positions(self.embed(tokens))
        for layer in self.layers:
            x = layer(x, padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.head(x.sum(1) / (~padding).sum(1, keepdim=True)).squeeze(1)


torch.manual_seed(59)
model = Sentiment()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(3):
    tokens = torch.randint(1, 15, (5, 6))
    tokens[0, 4:] = 0
    tokens[3, 2:] = 0
    labels = (tokens.float().sum(1) > 40).float()
    loss = F.binary_cross_entropy_with_logits(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step} {loss.item():.4f}")
