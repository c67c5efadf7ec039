"""The encoder."""

import torch
from torch import nn

from .corpus import WORDS


class Encoder(nn.Module):
    """Words with their places, and one mixing layer."""

    def __init__(self, width, longest=8):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(0.1 * torch.randn(longest, width))
        self.mix = nn.Linear(width, width)

    def forward(self, source):
        h = torch.tanh(self.mix(self.words(source)))  # saves
        h += self.places[: source.size(1)]  # [bug] harm
        h = h + self.places[: source.size(1)]  # [fixed]
        return h
