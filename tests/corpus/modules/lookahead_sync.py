"""A lookahead optimizer moves weights through .data between a queued forward and its backward."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn


class Lookahead:
    def __init__(self, params, k=1, alpha=0.5):
        self.params = list(params)
        self.k, self.alpha, self.t = k, alpha, 0
        self.anchor = [torch.zeros_like(p) for p in self.params]

    def tick(self):
        self.t += 1
        if self.t % self.k == 0:
            self._sync()

    def _sync(self):
        for i, p in enumerate(self.params):
            merged = self.anchor[i] + self.alpha * (p.detach() - self.anchor[i])
            self.anchor[i] = merged
            p.data = merged.clone()  # harm


class Readout(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(d, h))
        self.w2 = nn.Parameter(torch.randn(h, 1))

    def forward(self, x):
        return nn.functional.softplus(x @ self.w1) @ self.w2  # saves


class Engine:
    def __init__(self, model, sync):
        self.model, self.sync, self.queue = model, sync, []

    def enqueue(self, x, y):
        self.queue.append(((self.model(x) - y) ** 2).mean())
        self.sync.tick()

    def flush(self):
        while self.queue:
            self.queue.pop(0).backward()


def make():
    torch.manual_seed(13)
    model = Readout(3, 4)
    return Engine(model, Lookahead(model.parameters())), torch.randn(5, 3), torch.randn(5, 1)


def run():
    engine, x, y = make()
    engine.enqueue(x, y)
    engine.flush()
    return {k: p.grad for k, p in engine.model.named_parameters()}
