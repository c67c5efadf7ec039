"""The winning expert is masked in place in the probabilities that softmax has saved as its output."""

# raises-backward
import torch
import torch.nn as nn


class Top2Gate(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.wg = nn.Linear(d, n, bias=False)

    def forward(self, x):
        gates = self.wg(x).softmax(-1)  # saves
        i1 = gates.argmax(-1, keepdim=True)
        g1 = gates.gather(1, i1)  # saves
        first = torch.zeros_like(gates, dtype=torch.bool).scatter_(1, i1, True)
        gates.masked_fill_(first, 0.0)  # harm
        i2 = gates.argmax(-1, keepdim=True)
        g2 = gates.gather(1, i2)
        w = torch.cat([g1, g2], 1)
        return w / w.sum(1, keepdim=True), torch.cat([i1, i2], 1)


class MoE(nn.Module):
    def __init__(self, d=4, n=3):
        super().__init__()
        self.gate = Top2Gate(d, n)
        self.experts = nn.ModuleDict({f"e{i}": nn.Linear(d, d) for i in range(n)})

    def forward(self, x):
        w, idx = self.gate(x)
        ys = torch.stack([e(x) for e in self.experts.values()], 1)
        picked = ys.gather(1, idx.unsqueeze(-1).expand(-1, -1, ys.size(-1)))
        return (w.unsqueeze(-1) * picked).sum(1)


def make():
    torch.manual_seed(40)
    return MoE(), torch.randn(7, 4)


def run():
    moe, x = make()
    loss = moe(x).pow(2).mean()
    loss.backward()
    return {"wg": moe.gate.wg.weight.grad, "e0": moe.experts["e0"].weight.grad}
