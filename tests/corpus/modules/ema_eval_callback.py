"""A validation callback copies averaged weights into the live model between forward and backward and never puts the originals back."""

# silently-wrong, oracle=clone
import copy
import torch
from torch import nn


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: p.data * 0.5 for k, p in model.named_parameters()}

    def copy_to(self, model):
        for name, p in model.named_parameters():
            p.data = self.shadow[name].clone()  # harm


class EvalCallback:
    def __init__(self, ema, every):
        self.ema, self.every = ema, every

    def on_loss(self, step, model, x):
        if step % self.every == 0:
            self.ema.copy_to(model)
            with torch.no_grad():
                self.last = model(x).mean().item()


def make():
    torch.manual_seed(25)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 1))
    cb = EvalCallback(EMA(model, 0.99), every=1)
    return model, cb, torch.randn(5, 4), torch.randn(5, 1)


def run():
    model, cb, x, y = make()
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = (model(x) - y).pow(2).mean()  # saves
    cb.on_loss(0, model, x)
    optim.zero_grad()
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}
