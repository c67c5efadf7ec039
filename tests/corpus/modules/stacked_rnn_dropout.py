"""Dropout masks are multiplied in place into hidden states that the cells' tanh has saved as its output."""

# raises-backward
import torch
import torch.nn as nn


class StackedRNN(nn.Module):
    def __init__(self, d, layers, p):
        super().__init__()
        self.cells = nn.ModuleList(nn.RNNCell(d, d) for _ in range(layers))
        self.p = p

    def masks(self, batch, d):
        return [torch.bernoulli(torch.full((batch, d), 1 - self.p)) / (1 - self.p) for _ in self.cells]

    def forward(self, seq):
        T, B, D = seq.shape
        states = [torch.zeros(B, D) for _ in self.cells]
        masks = self.masks(B, D)
        tops = []
        for x in seq:
            new = []
            for cell, h in zip(self.cells, states):
                x = cell(x, h)  # saves
                new.append(x)
            states = [h.mul_(m) for h, m in zip(new, masks)]  # harm
            tops.append(states[-1])
        return torch.stack(tops)


def make():
    torch.manual_seed(61)
    return StackedRNN(4, 2, 0.25), torch.randn(3, 2, 4)


def run():
    rnn, seq = make()
    rnn(seq).pow(2).mean().backward()
    return {n: p.grad for n, p in rnn.named_parameters()}
