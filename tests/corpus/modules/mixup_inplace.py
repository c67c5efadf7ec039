"""Manifold mixup with in-place lerp on the hidden batch."""

# after_linear: correct
# after_gate: raises-backward, tensor=h
# under_no_grad: silently-wrong, tensor=h, watch=blind
import random

import torch
from torch import nn


def mixup(h, lam, perm):
    other = h[perm]
    h.mul_(lam).add_(other, alpha=1 - lam)  # [after_linear]
    h.mul_(lam).add_(other, alpha=1 - lam)  # [after_gate] harm
    with torch.no_grad():  # [under_no_grad]
        h.mul_(lam).add_(other, alpha=1 - lam)  # [under_no_grad] harm
    return h


class Classifier(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, where, lam, perm):
        for depth, layer in enumerate(self.layers):
            x = layer(x)
            if depth == where:
                x = mixup(x, lam, perm)
        return x


def make():
    torch.manual_seed(78)
    random.seed(0)
    net = Classifier([nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2)])
    return net, torch.randn(4, 3), torch.tensor([1, 0, 3, 2]), random.uniform(0.6, 0.8)


def run():
    net, x, perm, lam = make()
    where = 0  # [after_linear under_no_grad]
    where = 1  # [after_gate]
    out = net(x, where, lam, perm)
    loss = out.logsumexp(1).sum()
    loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x, perm, lam = make()
    h = net.layers[0](x)
    h = lam * h + (1 - lam) * h[perm]
    out = net.layers[2](torch.sigmoid(h))
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(out.logsumexp(1).sum(), list(net.parameters()))))
