"""The decoder."""

import torch
from torch import nn

from .corpus import WORDS


class Decoder(nn.Module):
    """Attends to the source from every place of the target."""

    def __init__(self, width):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(2 * width, WORDS)

    def forward(self, target, memory, padding):
        x = self.words(target)
        scores = self.query(x) @ memory.transpose(1, 2)
        weights = torch.softmax(scores, dim=-1)  # saves
        weights.masked_fill_(padding.unsqueeze(1), 0.0)  # [bug] harm
        weights = weights.masked_fill(padding.unsqueeze(1), 0.0)  # [fixed]
        return self.out(torch.cat([x, weights @ memory], dim=-1))
