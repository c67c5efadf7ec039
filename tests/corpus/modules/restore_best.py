"""The best state is loaded after backward and step, before the next forward."""

# correct, oracle=clone
import copy

import torch
from torch import nn, optim


class EarlyStopper:
    def __init__(self, model, optimizer, patience=1):
        self.model, self.optimizer, self.patience = model, optimizer, patience
        self.best, self.bad = float("inf"), 0
        self.snapshot = None

    def report(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
            self.snapshot = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))
        else:
            self.bad += 1
            if self.bad >= self.patience:
                weights, opt_state = self.snapshot
                self.model.load_state_dict(weights)
                self.optimizer.load_state_dict(opt_state)
                self.bad = 0


def make():
    torch.manual_seed(18)
    model = nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 1))
    return model, torch.randn(10, 3), torch.randn(10, 1)


def run():
    model, X, Y = make()
    opt = optim.SGD(model.parameters(), lr=2.0, momentum=0.5)  # lr too big on purpose
    stopper = EarlyStopper(model, opt)
    for epoch in range(5):
        opt.zero_grad()
        loss = nn.functional.huber_loss(model(X), Y)
        loss.backward()
        grads = {n: p.grad.clone() for n, p in model.named_parameters()}
        opt.step()
        stopper.report(loss.item())
    return grads
