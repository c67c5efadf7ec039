"""A Function keeps a shared workspace on ctx, which its second call overwrites unseen."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn


class KWinners(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, k, workspace):
        winners = scores.topk(k, dim=-1).indices
        workspace.zero_()  # [bug] harm
        workspace.zero_()  # [fixed]
        workspace.scatter_(-1, winners, 1.0)  # [bug] harm
        workspace.scatter_(-1, winners, 1.0)  # [fixed]
        ctx.mask = workspace  # [bug]
        ctx.mask = workspace.clone()  # [fixed]
        return scores * workspace

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask, None, None


class Router(nn.Module):
    def __init__(self, d, experts, rows, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(d, experts)
        self.experts = nn.Parameter(torch.randn(experts, d) * 0.5)
        self.register_buffer("workspace", torch.empty(rows, experts))

    def forward(self, x):
        kept = KWinners.apply(self.gate(x), self.k, self.workspace)
        return kept @ self.experts


def make():
    torch.manual_seed(0)
    return Router(4, 6, rows=7), torch.randn(7, 4)


def run():
    layer, x = make()
    out = layer(x)
    out = layer(out.tanh())
    loss = out.pow(2).mean()
    loss.backward()
    return {"gate": layer.gate.weight.grad, "experts": layer.experts.grad}


# truth
def truth():
    def winners_only(scores, k, _):
        return scores * torch.zeros_like(scores).scatter(-1, scores.topk(k, dim=-1).indices, 1.0)

    KWinners.apply = staticmethod(winners_only)
    return run()
