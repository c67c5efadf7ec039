"""The inner gradients are scaled in place with create_graph, which is recorded, and nothing had saved them."""

# correct, oracle=clone
import torch


def net(params, x):
    w1, b1, w2 = params
    return torch.tanh(x @ w1 + b1) @ w2


def mse(params, task):
    x, y = task
    return (net(params, x) - y).pow(2).mean()


def make_task(n=6):
    amp, phase = torch.rand(()) * 4 + 0.5, torch.rand(()) * 3
    x = torch.rand(n, 1) * 4 - 2
    return x, amp * torch.sin(x + phase)


def make():
    torch.manual_seed(58)
    meta = [torch.randn(1, 6) * 0.7, torch.zeros(6), torch.randn(6, 1) * 0.5]
    meta = [m.requires_grad_() for m in meta]
    tasks = [(make_task(), make_task()) for _ in range(2)]
    return meta, tasks


def adapt(params, support, lr=0.1, steps=2):
    for _ in range(steps):
        grads = torch.autograd.grad(mse(params, support), params, create_graph=True)
        for g in grads:
            g.mul_(-lr)
        params = [p + g for p, g in zip(params, grads)]
    return params


def run():
    meta, tasks = make()
    meta_loss = 0
    for support, query in tasks:
        fast = adapt(meta, support)
        meta_loss += mse(fast, query) / len(tasks)
    meta_loss.backward()
    return dict(zip(["w1", "b1", "w2"], (m.grad for m in meta)))
