"""A key cache is shifted through .data after the scores of an earlier step have saved it."""

# silently-wrong, oracle=clone
import math
import torch
import torch.nn as nn


class RollingCache:
    """last `size` keys/values of a frozen memory encoder"""

    def __init__(self, size, d):
        self.k, self.v = torch.zeros(size, d), torch.zeros(size, d)
        self.filled = 0

    def push(self, k, v):
        for buf, new in ((self.k, k), (self.v, v)):
            buf.data[:-1] = buf.data[1:].clone()  # harm
            buf.data[-1] = new  # harm
        self.filled = min(self.filled + 1, len(self.k))

    @property
    def live(self):
        n = self.filled
        return self.k[-n:], self.v[-n:]


class Reader(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Linear(d, d, bias=False)
        self.o = nn.Linear(d, d)

    def forward(self, x, cache):
        k, v = cache.live
        att = (self.q(x) @ k.T / math.sqrt(k.size(-1))).softmax(-1)  # saves
        return self.o(att @ v)  # saves


def make():
    torch.manual_seed(44)
    d = 4
    frozen = nn.Linear(d, 2 * d).requires_grad_(False)
    return Reader(d), frozen, RollingCache(3, d), torch.randn(6, d), torch.randn(6, d)


def run():
    reader, frozen, cache, xs, ys = make()
    loss = 0
    for x, y in zip(xs, ys):
        cache.push(*frozen(x).split(4))
        loss = loss + (reader(x, cache) - y).pow(2).mean()
    loss.backward()
    return {"q": reader.q.weight.grad, "o": reader.o.weight.grad}
