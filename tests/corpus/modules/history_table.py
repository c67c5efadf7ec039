"""Rows of a history table are written through .data beyond the views that were saved."""

# correct, oracle=clone
import torch
import torch.nn as nn


class History:
    """rows [0, n) are in use, the rest is spare room; stored rows are constants (no BPTT through them)"""

    def __init__(self, rows, dim):
        self.table = torch.full((rows, dim), float("nan"))
        self.n = 0

    def used(self):
        return self.table[: self.n]

    def remember(self, h):
        self.table.data[self.n] = h.detach()
        self.n += 1


class Reader(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.cell = nn.GRUCell(d, d)
        self.query = nn.Linear(d, d)

    def read(self, h, mem):
        past = mem.used()
        if past.shape[0] == 0:
            return torch.zeros_like(h)
        att = torch.softmax(past @ self.query(h), dim=0)
        return att @ past

    def forward(self, xs):
        mem, h, total = History(len(xs), xs.shape[1]), torch.zeros(xs.shape[1]), 0.0
        for x in xs:
            h = self.cell(x, h) + self.read(h, mem)
            mem.remember(h)
            total = total + h.pow(2).sum()
        return total


def make():
    torch.manual_seed(84)
    return Reader(3), torch.randn(5, 3)


def run():
    reader, xs = make()
    reader(xs).backward()
    return {n: p.grad for n, p in reader.named_parameters()}
