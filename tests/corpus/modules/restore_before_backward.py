"""load_state_dict puts old weights back while a pending graph still needs the ones that it saved."""

# raises-backward
import copy

import torch
from torch import nn, optim


class EarlyStopper:
    def __init__(self, model, patience=1):
        self.model, self.patience = model, patience
        self.best, self.bad = float("inf"), 0
        self.snapshot = None

    def report(self, value):
        if value < self.best:
            self.best, self.bad = value, 0
            self.snapshot = copy.deepcopy(self.model.state_dict())
        else:
            self.bad += 1
            if self.bad >= self.patience:
                self.model.load_state_dict(self.snapshot)  # harm
                self.bad = 0


def make():
    torch.manual_seed(18)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    return model, torch.randn(10, 3), torch.randn(10, 1)


def run():
    model, X, Y = make()
    opt = optim.SGD(model.parameters(), lr=5.0)  # lr too big on purpose
    stopper = EarlyStopper(model)
    for epoch in range(6):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(X), Y)  # saves
        stopper.report(loss.item())
        loss.backward()
        opt.step()
    return {n: p.grad for n, p in model.named_parameters()}
