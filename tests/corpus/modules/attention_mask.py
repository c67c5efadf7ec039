"""The causal mask is filled into the scores in place."""

# bug: raises-backward, tensor=weights
# fixed: correct
# scores: correct
import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.register_buffer("mask", torch.triu(torch.ones(8, 8, dtype=torch.bool), 1))

    def forward(self, x):
        length, width = x.shape[-2:]
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width)
        mask = self.mask[:length, :length]
        scores.masked_fill_(mask, float("-inf"))  # [scores]
        scores = scores.masked_fill(mask, float("-inf"))  # [fixed]
        weights = torch.softmax(scores, dim=-1)  # saves
        weights.masked_fill_(mask, 0.0)  # [bug] harm
        return weights @ v


def make():
    torch.manual_seed(43)
    return SelfAttention(4), torch.randn(2, 3, 4)


def run():
    attention, x = make()
    loss = attention(x).pow(2).mean()
    loss.backward()
    return {name: parameter.grad for name, parameter in attention.named_parameters()}


# truth
def truth():
    attention, x = make()
    q, k, v = attention.query(x), attention.key(x), attention.value(x)
    scores = q @ k.transpose(-2, -1) / 2
    future = torch.ones(3, 3).triu(1).bool()
    scores = torch.where(future, torch.tensor(-1e9), scores)
    out = torch.softmax(scores, -1) @ v
    names = [name for name, _ in attention.named_parameters()]
    return dict(zip(names, torch.autograd.grad(out.pow(2).mean(), list(attention.parameters()))))
