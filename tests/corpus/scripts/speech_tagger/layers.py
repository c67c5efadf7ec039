"""Layers of the tagger."""

import torch
from torch import nn


class Highway(nn.Module):
    """Lets a gate decide how much of the input passes unchanged."""

    def __init__(self, width):
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))  # saves
        carried = (1 - gate) * x
        return carried + gate.mul_(torch.relu(self.transform(x)))  # [bug] harm
        return carried + gate.mul(torch.relu(self.transform(x)))  # [fixed]


class WordFeatures(nn.Module):
    """An embedding with a flag for capital letters."""

    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.capital = nn.Parameter(torch.zeros(width))

    def forward(self, tokens, capitals):
        features = self.words(tokens)
        features += capitals.unsqueeze(-1) * self.capital
        return features
