# bug.py
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = torch.sigmoid(self.inner(x))
        y = self.outer(h)
        h += y
        return h


net = nn.Sequential(Block(), Block())
net(torch.randn(3, 4)).sum().backward()
