"""A hook keeps a detached clone of the activations, and only that clone is centred and whitened in place."""

# correct, oracle=clone
import torch
import torch.nn as nn
from contextlib import contextmanager


@contextmanager
def probe(model, layers):
    acts, handles = {}, []

    def saver(name):
        def hook(module, args, output):
            acts[name] = output.detach().clone()

        return hook

    for name, m in model.named_modules():
        if isinstance(m, layers):
            handles.append(m.register_forward_hook(saver(name)))
    try:
        yield acts
    finally:
        for h in handles:
            h.remove()


def whiten_(a):
    a -= a.mean(0)
    a /= a.std(0).clamp_min_(1e-5)
    return a


def make():
    torch.manual_seed(62)
    model = nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    return model, torch.randn(12, 3)


def run():
    model, x = make()
    with probe(model, (nn.Tanh, nn.Softplus)) as acts:
        y = model(x)
    corr = {k: (whiten_(a).t() @ a / len(a)).abs().mean().item() for k, a in acts.items()}
    loss = (y - x.prod(1, keepdim=True)).pow(2).mean()
    loss.backward()
    print("mean |corr|", corr)
    return {n: p.grad for n, p in model.named_parameters()}
