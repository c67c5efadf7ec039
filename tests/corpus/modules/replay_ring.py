"""Replay memory: sample() by slice and push() before the update."""

# bug: raises-backward, tensor=states
# fixed: correct
# late: correct
from collections import namedtuple

import torch
from torch import nn

Batch = namedtuple("Batch", "s r")


class Replay:
    def __init__(self, capacity, dim):
        self.s = torch.zeros(capacity, dim)
        self.r = torch.zeros(capacity)
        self.i = 0

    def push(self, s, r):
        k = self.i % len(self.r)
        self.s[k] = s  # [bug] harm
        self.r[k] = r  # [bug]
        self.s[k], self.r[k] = s, r  # [fixed late]
        self.i += 1

    def sample(self, lo, n):
        return Batch(self.s[lo : lo + n], self.r[lo : lo + n])  # [bug late]
        idx = torch.arange(lo, lo + n)  # [fixed]
        return Batch(self.s[idx], self.r[idx])  # [fixed]


def make():
    torch.manual_seed(26)
    mem = Replay(4, 3)
    for k in range(4):
        mem.push(torch.randn(3), float(k))
    return mem, nn.Linear(3, 1), torch.randn(3)


def td_error(v, batch):
    return v(batch.s).squeeze(1) - batch.r


def run():
    mem, v, fresh = make()
    batch = mem.sample(0, 3)
    loss = td_error(v, batch).pow(2).mean()
    mem.push(fresh, 9.0)  # [bug fixed]
    loss.backward()
    mem.push(fresh, 9.0)  # [late]
    return {"w": v.weight.grad, "b": v.bias.grad}


# truth
def truth():
    mem, v, _ = make()
    s, r = mem.s[:3].clone(), mem.r[:3].clone()
    loss = ((s @ v.weight.t())[:, 0] + v.bias - r).pow(2).mean()
    w, b = torch.autograd.grad(loss, [v.weight, v.bias])
    return {"w": w, "b": b}
