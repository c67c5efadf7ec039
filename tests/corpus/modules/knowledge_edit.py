"""A column of a parameter is edited in place with gradient recording on."""

# raises-forward
import torch
from torch import nn


class FFN(nn.Module):
    def __init__(self, d=4, inner=8):
        super().__init__()
        self.dense_in = nn.Linear(d, inner)
        self.dense_out = nn.Linear(inner, d)

    def forward(self, h):
        return self.dense_out(torch.relu(self.dense_in(h)))


class ToyBert(nn.Module):
    def __init__(self, n_layers=2):
        super().__init__()
        self.layer = nn.ModuleList(FFN() for _ in range(n_layers))

    def forward(self, h):
        for l in self.layer:
            h = h + l(h)
        return h


def make():
    torch.manual_seed(6)
    return ToyBert(), torch.randn(3, 4), torch.randn(4), torch.randn(4)


def run():
    bert, h, ori_emb, tgt_emb = make()
    neurons = [(0, 3), (1, 5)]
    for layer, pos in neurons:
        w = bert.layer[layer].dense_out.weight
        w[:, pos] -= 0.5 * ori_emb
        w[:, pos] += 0.5 * tgt_emb
    loss = (bert(h) - tgt_emb).pow(2).mean()
    loss.backward()
    return {"out0": bert.layer[0].dense_out.weight.grad}
