"""A bias that only takes part in choosing experts is updated in place before backward."""

# correct, oracle=clone
import torch
from torch import nn


class LossFreeMoE(nn.Module):
    """DeepSeek-V3 like: the per expert bias only influences the selection"""

    def __init__(self, dim, n_experts, k, rate=0.1):
        super().__init__()
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_experts))
        self.register_buffer("expert_bias", torch.zeros(n_experts))
        self.k, self.rate = k, rate
        self.load = None

    def forward(self, x):
        affinity = self.gate(x).sigmoid()
        top = (affinity + self.expert_bias).topk(self.k, dim=-1).indices
        w = affinity.gather(-1, top)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            tok, slot = (top == e).nonzero(as_tuple=True)
            out.index_add_(0, tok, expert(x[tok]) * w[tok, slot, None])
        self.load = torch.bincount(top.flatten(), minlength=len(self.experts))
        return out

    def rebalance(self):
        err = self.load.float().mean() - self.load
        self.expert_bias.add_(self.rate * err.sign())


def make():
    torch.manual_seed(65)
    return LossFreeMoE(4, 4, 2), torch.randn(10, 4)


def run():
    moe, x = make()
    total = 0.0
    for _ in range(2):
        y = moe(x)
        moe.rebalance()
        total = total + (y - x).pow(2).mean()
    total.backward()
    return {n: p.grad for n, p in moe.named_parameters()}
