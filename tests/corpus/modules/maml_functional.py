"""The inner step is built in place on a fresh product of gradient and rate, which nobody saved."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.func import functional_call


def make():
    torch.manual_seed(16)
    model = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    tasks = []
    for _ in range(3):
        amp, phase = torch.rand(2) + 0.5
        xs = torch.rand(10, 1) * 4 - 2
        ys = amp * torch.sin(xs + phase)
        tasks.append((xs[:5], ys[:5], xs[5:], ys[5:]))
    inner_lr = torch.tensor(0.05, requires_grad=True)
    return model, inner_lr, tasks


def adapt(model, params, lr, x, y, steps=2):
    for _ in range(steps):
        err = (functional_call(model, params, x) - y).pow(2).mean()
        grads = torch.autograd.grad(err, list(params.values()), create_graph=True)
        updated = {}
        for (name, p), g in zip(params.items(), grads):
            step = g * lr
            step.neg_()
            step.add_(p)
            updated[name] = step
        params = updated
    return params


def run():
    model, inner_lr, tasks = make()
    meta = 0.0
    for sx, sy, qx, qy in tasks:
        fast = adapt(model, dict(model.named_parameters()), inner_lr, sx, sy)
        meta = meta + (functional_call(model, fast, qx) - qy).pow(2).mean()
    meta = meta / len(tasks)
    meta.backward()
    out = {n: p.grad for n, p in model.named_parameters()}
    out["lr"] = inner_lr.grad
    return out
