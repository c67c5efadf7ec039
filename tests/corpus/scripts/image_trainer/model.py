"""A convolutional classifier with squeeze and excitation."""

import torch
from torch import nn


class SqueezeExcite(nn.Module):
    """Weighs the channels by what is seen in all of them."""

    def __init__(self, channels, floor=0.1):
        super().__init__()
        self.reduce = nn.Linear(channels, 2)
        self.expand = nn.Linear(2, channels)
        self.floor = floor

    def forward(self, x):
        squeezed = torch.relu(self.reduce(x.mean((2, 3))))
        gate = torch.sigmoid(self.expand(squeezed))  # saves
        gate.clamp_(min=self.floor)  # [bug] harm
        gate = gate.clamp(min=self.floor)  # [fixed]
        return x * gate[:, :, None, None]


class Classifier(nn.Module):
    """Two classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.excite = SqueezeExcite(4)
        self.head = nn.Linear(4 * 4, 2)

    def forward(self, x):
        x = torch.relu_(self.stem(x))
        x = self.excite(x)
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))
