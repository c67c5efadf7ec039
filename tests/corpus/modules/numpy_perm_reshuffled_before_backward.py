"""A permutation is shuffled again in NumPy memory that the saved indices of an earlier lookup share."""

# silently-wrong, oracle=clone
import numpy as np
import torch
from torch import nn


class Shuffler(object):
    def __init__(self, n, bs, seed):
        self.rng = np.random.RandomState(seed)
        self.perm = np.arange(n)
        self.bs = bs
        self.reset()

    def reset(self):
        self.rng.shuffle(self.perm)  # harm
        self.pos = 0

    def __call__(self):
        if self.pos >= len(self.perm):
            self.reset()
        ids = torch.from_numpy(self.perm[self.pos : self.pos + self.bs])
        self.pos += self.bs
        return ids


class MF(nn.Module):
    """matrix factorisation, one user factor per row"""

    def __init__(self, n, d):
        super().__init__()
        self.factors = nn.Parameter(torch.randn(n, d))
        self.item = nn.Parameter(torch.randn(d))

    def forward(self, ids):
        return self.factors[ids] @ self.item  # saves


def make():
    torch.manual_seed(61)
    n = 8
    return MF(n, 3), Shuffler(n, 4, seed=1), torch.randn(3, 4)


def run():
    mf, next_ids, ratings = make()
    total = torch.zeros(())
    for it in range(3):
        ids = next_ids()
        pred = mf(ids)
        total = total + (pred - ratings[it]).pow(2).sum()
    total.backward()
    return {"factors": mf.factors.grad, "item": mf.item.grad}
