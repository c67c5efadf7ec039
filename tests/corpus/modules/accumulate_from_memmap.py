"""The shared NumPy batch is refilled only after the backward of the micro-batch that used it."""

# correct, oracle=clone
import numpy as np
import torch
from torch import nn


class Loader:
    """mimics reading shards into one pinned buffer"""

    def __init__(self, shards):
        self.shards = shards
        self.np_buf = np.empty_like(shards[0])
        self.batch = torch.from_numpy(self.np_buf)

    def __iter__(self):
        for shard in self.shards:
            self.np_buf[...] = shard
            yield self.batch


def make():
    torch.manual_seed(56)
    rng = np.random.RandomState(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 3)).double()
    return model, Loader([rng.randn(4, 3) for _ in range(3)])


def run():
    model, loader = make()
    n_acc = 3
    model.zero_grad()
    for x in loader:
        loss = (model(x) - x).square().mean() / n_acc
        loss.backward()
        x.zero_()
    return {n: p.grad for n, p in model.named_parameters()}
