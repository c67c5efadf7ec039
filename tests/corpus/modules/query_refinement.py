"""The position half of a tensor is written through a view; the saved content half shares its counter."""

# raises-backward
import torch
import torch.nn as nn


class Refiner(nn.Module):
    def __init__(self, n, d, depth):
        super().__init__()
        self.d = d
        self.queries = nn.Parameter(torch.randn(n, 2 * d))
        self.keys = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.deltas = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))

    def content(self, q):
        return q.narrow(1, 0, self.d)

    def position(self, q):
        return q.narrow(1, self.d, self.d)

    def move(self, q, step):
        self.position(q).add_(step)  # harm

    def forward(self, memory):
        q = self.queries.clone()
        score = 0
        for key, delta in zip(self.keys, self.deltas):
            att = self.content(q) @ key(memory).t()  # saves
            score = score + att.logsumexp(-1).sum()
            self.move(q, delta(memory).mean(0))
        return score + self.position(q).pow(2).sum()


def make():
    torch.manual_seed(63)
    return Refiner(3, 4, 2), torch.randn(6, 4)


def run():
    net, memory = make()
    net(memory).backward()
    return {"queries": net.queries.grad}
