"""Optimal transport layer: row and column normalisation in place."""

# bug: raises-backward, tensor=K
# fixed: correct
# logspace: correct
# frozen: correct
import torch
from torch import nn


def sinkhorn(cost, eps, iters):
    K = torch.exp(-cost / eps)  # [bug] saves
    K = torch.exp(-cost / eps)  # [fixed]
    K = -cost / eps  # [logspace]
    with torch.no_grad():  # [frozen]
        K = torch.exp(-cost / eps)  # [frozen]
        for _ in range(iters):  # [frozen]
            K /= K.sum(0, keepdim=True)  # [frozen]
            K /= K.sum(1, keepdim=True)  # [frozen]
    for _ in range(iters):  # [bug fixed logspace]
        K /= K.sum(0, keepdim=True)  # [bug] harm
        K /= K.sum(1, keepdim=True)  # [bug] harm
        K = K / K.sum(0, keepdim=True)  # [fixed]
        K = K / K.sum(1, keepdim=True)  # [fixed]
        K = K - K.logsumexp(0, keepdim=True)  # [logspace]
        K = K - K.logsumexp(1, keepdim=True)  # [logspace]
    K = K.exp()  # [logspace]
    return K


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(2, 3, bias=False)

    def forward(self, a, b):
        cost = torch.cdist(self.emb(a), self.emb(b))
        plan = sinkhorn(cost, 0.5, 2)
        return (plan * cost).sum()


def make():
    torch.manual_seed(20)
    return Matcher(), torch.randn(3, 2), torch.randn(3, 2)


def run():
    m, a, b = make()
    value = m(a, b)
    value.backward()
    return {"emb": m.emb.weight.grad}


# truth
def truth():
    m, a, b = make()
    c = (m.emb(a)[:, None] - m.emb(b)[None]).pow(2).sum(-1).sqrt()
    k = (-c / 0.5).exp()
    for _ in range(2):
        k = k / k.sum(0, keepdim=True)
        k = k / k.sum(1, keepdim=True)
    k = k.detach()  # [frozen]
    return {"emb": torch.autograd.grad((k * c).sum(), m.emb.weight)[0]}
