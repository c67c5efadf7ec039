"""The inner gradients are clamped in place, which is recorded, and nothing had saved their values before."""

# correct, oracle=clone
import torch
import torch.nn.functional as F


def init_params(key, sizes):
    g = torch.Generator().manual_seed(key)
    return [
        (torch.randn(o, i, generator=g).div_(i**0.5).requires_grad_(), torch.zeros(o, requires_grad=True))
        for i, o in zip(sizes[:-1], sizes[1:])
    ]


def apply(params, x):
    *hidden, last = params
    for w, b in hidden:
        x = torch.tanh(F.linear(x, w, b))
    return F.linear(x, *last)


def mse(params, task):
    x, y = task
    return (apply(params, x) - y).pow(2).mean()


def inner_update(params, task, lr=0.4, clip=0.3):
    flat = [p for layer in params for p in layer]
    grads = torch.autograd.grad(mse(params, task), flat, create_graph=True)
    new = iter([p - lr * g.clamp_(-clip, clip) for p, g in zip(flat, grads)])
    return [(w, b) for w, b in zip(new, new)]


def tasks(n):
    for amp in torch.linspace(0.5, 2.0, n):
        x = torch.randn(10, 1)
        yield (x[:5], amp * x[:5].sin()), (x[5:], amp * x[5:].sin())


def make():
    torch.manual_seed(25)
    return init_params(1, (1, 4, 1)), list(tasks(3))


def run():
    params, data = make()
    meta = sum(mse(inner_update(params, support), query) for support, query in data) / len(data)
    meta.backward()
    return {f"{n}{i}": p.grad for i, layer in enumerate(params) for n, p in zip("wb", layer)}
