"""Positional encodings are added in place to embeddings; one variant scales the embedding that exp has saved."""

# bug: raises-backward, tensor=gate
# fixed: correct
# embedding: correct
import math

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, tokens, width, limit):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        position = torch.arange(limit).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(100.0) / width))
        table = torch.zeros(limit, width)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        x = self.embed(tokens)
        gate = torch.exp(-x.abs())  # saves
        gate += self.table[: tokens.shape[0]]  # [bug] harm
        gate = gate + self.table[: tokens.shape[0]]  # [fixed]
        y = gate * 2  # [bug fixed]
        y = self.embed(tokens)  # [embedding]
        y += self.table[: tokens.shape[0]]  # [embedding]
        y *= gate  # [embedding]
        return self.out(y)


def make():
    torch.manual_seed(53)
    return Encoder(7, 4, 10), torch.tensor([3, 1, 6])


def run():
    encoder, tokens = make()
    loss = encoder(tokens).pow(2).mean()
    loss.backward()
    return {"embed": encoder.embed.weight.grad, "out": encoder.out.weight.grad}


# truth
def truth():
    encoder, tokens = make()
    x = encoder.embed.weight[tokens]
    y = (torch.exp(-x.abs()) + encoder.table[:3]) * 2  # [bug fixed]
    y = (x + encoder.table[:3]) * torch.exp(-x.abs())  # [embedding]
    loss = (y @ encoder.out.weight.t() + encoder.out.bias).pow(2).mean()
    first, second = torch.autograd.grad(loss, [encoder.embed.weight, encoder.out.weight])
    return {"embed": first, "out": second}
