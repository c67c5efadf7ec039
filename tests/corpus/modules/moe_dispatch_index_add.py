"""Experts' outputs are added in place into a fresh buffer, whose old values no derivative needs."""

# correct, oracle=clone
import torch, torch.nn as nn
from collections import Counter


class Expert(nn.Sequential):
    def __init__(self, d, h):
        super().__init__(nn.Linear(d, h), nn.ReLU(inplace=True), nn.Linear(h, d))


class SparseMoE(nn.Module):
    load = Counter()

    def __init__(self, d=3, n_experts=4, k=2):
        super().__init__()
        self.router = nn.Linear(d, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(d, 4) for _ in range(n_experts))
        self.k = k

    def route(self, x):
        top, idx = self.router(x).topk(self.k, dim=-1)
        top -= top.detach().amax(-1, keepdim=True)
        return top.softmax(-1), idx

    def forward(self, x):
        w, idx = self.route(x)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = (idx == e).nonzero(as_tuple=True)
            if not len(rows):
                continue
            self.load[e] += len(rows)
            h = expert(x[rows])
            h *= w[rows, slot].unsqueeze(1)
            y.index_add_(0, rows, h)
        return y


def make():
    torch.manual_seed(57)
    SparseMoE.load.clear()
    return SparseMoE(), torch.randn(8, 3), torch.randn(8, 3)


def run():
    moe, x, target = make()
    y = moe(x)
    y += x
    loss = nn.functional.huber_loss(y, target)
    loss.backward()
    print(dict(moe.load))
    return {"router": moe.router.weight.grad, "e0": moe.experts[0][0].weight.grad, "e1": moe.experts[1][2].weight.grad}
