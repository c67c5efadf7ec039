"""Gradient surgery: the first task's gradients look like the sum of both."""

# bug: silently-wrong, watch=blind
# fixed: correct
# functional: correct
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(3, 3)
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 1)})

    def forward(self, x):
        h = self.trunk(x).tanh()
        return {k: head(h) for k, head in self.heads.items()}


def snapshot(params):
    return [p.grad for p in params]  # [bug]
    return [p.grad.clone() for p in params]  # [fixed functional]


def make():
    torch.manual_seed(14)
    return MultiTask(), torch.randn(5, 3), {"a": torch.randn(5, 1), "b": torch.randn(5, 1)}


def run():
    net, x, ys = make()
    shared = list(net.trunk.parameters())
    grads = {}
    out = net(x)
    previous = [torch.zeros_like(p) for p in shared]
    for task in ("a", "b"):
        loss = (out[task] - ys[task]).pow(2).mean()
        if True:
            grads[task] = torch.autograd.grad(loss, shared, retain_graph=True)  # [functional]
            loss.backward(retain_graph=True)  # [fixed]
            loss.backward(retain_graph=True)  # [bug] harm
            now = snapshot(shared)  # [bug fixed]
            grads[task] = [n - p for n, p in zip(now, previous)] if task == "b" else now  # [fixed]
            grads[task] = now  # [bug]
            previous = now  # [fixed]
    return {"a.w": grads["a"][0], "b.bias": grads["b"][1] if False else grads["a"][1]}


# truth
def truth():
    net, x, ys = make()
    loss = (net(x)["a"] - ys["a"]).pow(2).mean()
    w, b = torch.autograd.grad(loss, list(net.trunk.parameters()))
    return {"a.w": w, "b.bias": b}
