"""A lookup with max_norm rescales its table in place before anyone has saved it, and the regulariser uses the lookup's result."""

# correct, oracle=clone
import torch
from torch import nn


class KG(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.ent = nn.Embedding(n, d, max_norm=1.0)
        self.rel = nn.Parameter(torch.randn(2, d) * 0.1)

    def forward(self, triples):
        h, r, t = triples.unbind(1)
        ends = self.ent(torch.stack([h, t]))
        head, tail = ends
        delta = head + self.rel[r] - tail
        return delta.square().sum(-1), ends


def make():
    torch.manual_seed(10)
    kg = KG(6, 4)
    pos = torch.tensor([[0, 0, 1], [1, 1, 2], [3, 0, 4]])
    neg = torch.tensor([[0, 0, 5], [5, 1, 2], [3, 0, 1]])
    return kg, torch.cat([pos, neg]), torch.tensor([1.0, 1, 1, -1, -1, -1])


def run():
    kg, triples, sign = make()
    opt = torch.optim.SGD(kg.parameters(), lr=0.1)
    for step in range(3):
        opt.zero_grad()
        score, ends = kg(triples)
        loss = nn.functional.softplus(sign * (score - 1.0)).mean() + 0.01 * ends.pow(2).mean()
        loss.backward()
        if step < 2:
            opt.step()
    return {"ent": kg.ent.weight.grad, "rel": kg.rel.grad}
