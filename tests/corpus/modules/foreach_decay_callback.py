"""A weight-decay callback multiplies the detached weights in place between forward and backward."""

# raises-backward
import torch
import torch.nn as nn


class Callback:
    def after_forward(self, trainer): ...
    def after_step(self, trainer): ...


class DecoupledDecay(Callback):
    def __init__(self, wd):
        self.wd = wd

    def after_forward(self, trainer):
        ps = [p.detach() for p in trainer.model.parameters() if p.ndim > 1]
        torch._foreach_mul_(ps, 1 - self.wd * trainer.lr)  # harm


class Timer(Callback):
    seen = 0

    def after_forward(self, trainer):
        Timer.seen += 1


class Trainer:
    def __init__(self, model, callbacks, lr=0.1):
        self.model, self.callbacks, self.lr = model, callbacks, lr

    def fire(self, event):
        for cb in self.callbacks:
            getattr(cb, event)(self)

    def fit_one(self, x, y):
        out = self.model(x)  # saves
        self.fire("after_forward")
        nn.functional.cross_entropy(out, y).backward()
        self.fire("after_step")


def make():
    torch.manual_seed(52)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    return Trainer(net, [Timer(), DecoupledDecay(0.01)]), torch.randn(9, 5), torch.randint(0, 3, (9,))


def run():
    trainer, x, y = make()
    trainer.fit_one(x, y)
    return {n: p.grad for n, p in trainer.model.named_parameters()}
