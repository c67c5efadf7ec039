"""My callback that keeps the weights in a ball runs before the backward."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# idle: correct
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn


class Callback:
    def on_forward_end(self, trainer): ...

    def on_backward_end(self, trainer): ...


class MaxNorm(Callback):
    def __init__(self, limit):
        self.limit = limit

    def project(self, trainer):
        for p in trainer.model.parameters():
            norm = p.data.norm()
            if norm > self.limit:
                p.data = p.data * (self.limit / norm)  # [bug] harm
                p.data = p.data * (self.limit / norm)  # [fixed idle]

    def on_forward_end(self, trainer):
        self.project(trainer)  # [bug idle]
        pass

    def on_backward_end(self, trainer):
        self.project(trainer)  # [fixed]
        pass


class Trainer:
    def __init__(self, model, loss_fn: Callable, callbacks):
        self.model, self.loss_fn, self.callbacks = model, loss_fn, callbacks

    def fit_one(self, x, y):
        self.out = self.model(x)
        for cb in self.callbacks:
            cb.on_forward_end(self)
        loss = self.loss_fn(self.out, y)
        loss.backward()
        for cb in self.callbacks:
            cb.on_backward_end(self)
        return loss.item()


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return (x * (self.core * self.core).sum(0)).sum(1)  # saves


def make():
    torch.manual_seed(1)
    limit = 0.5  # [bug fixed]
    limit = 1e6  # [idle]
    return Trainer(Bilinear(), F.smooth_l1_loss, [Callback(), MaxNorm(limit)]), torch.randn(4, 3), torch.randn(4)


def run():
    trainer, x, y = make()
    trainer.fit_one(x, y)
    return {"core": trainer.model.core.grad}


# truth
def truth():
    trainer, x, y = make()
    c = trainer.model.core
    out = x @ c.pow(2).sum(0)
    return {"core": torch.autograd.grad(F.smooth_l1_loss(out, y), c)[0]}
