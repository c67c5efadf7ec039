"""The mask that a Function keeps on ctx is a fresh tensor for each call; the counters are not in the graph."""

# correct
import torch
from torch import nn


class KWinners(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, k):
        winners = scores.topk(k, dim=-1).indices
        mask = torch.zeros_like(scores)
        mask.scatter_(-1, winners, 1.0)
        ctx.mask = mask
        picked = winners.flatten()
        ctx.mark_non_differentiable(picked)
        return scores * mask, picked

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.mask, None


class Router(nn.Module):
    def __init__(self, d, experts, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(d, experts)
        self.experts = nn.Parameter(torch.randn(experts, d) * 0.5)
        self.register_buffer("usage", torch.zeros(experts))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        kept, picked = KWinners.apply(self.gate(x), self.k)
        self.usage.index_add_(0, picked, torch.ones_like(picked, dtype=self.usage.dtype))
        self.calls += 1
        return kept @ self.experts


def make():
    torch.manual_seed(0)
    layer = Router(4, 6)
    return layer, torch.randn(7, 4)


def run():
    layer, x = make()
    out = layer(x)
    out = layer(out.tanh())  # applied twice, weights shared
    loss = out.pow(2).mean()
    loss.backward()
    layer.usage.div_(layer.calls)
    return {"gate": layer.gate.weight.grad, "experts": layer.experts.grad}


# truth
def truth():
    def winners_only(scores, k):
        winners = scores.topk(k, dim=-1).indices
        return scores * torch.zeros_like(scores).scatter(-1, winners, 1.0), winners.flatten()

    KWinners.apply = staticmethod(winners_only)
    return run()
