"""Averaged weights are loaded for a report, and the trained ones loaded back, while a loss waits for backward."""

# bug: raises-backward
# fixed: correct
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Averager:
    def __init__(self, model, decay=0.8):
        self.decay = decay
        self.average = copy.deepcopy(model.state_dict())

    def update(self, model):
        for name, value in model.state_dict().items():
            self.average[name].mul_(self.decay).add_(value, alpha=1 - self.decay)

    def report(self, model, x, y):
        """Returns the loss with the averaged weights."""
        kept = copy.deepcopy(model.state_dict())
        model.load_state_dict(self.average)  # harm
        with torch.no_grad():
            loss = F.mse_loss(model(x), y).item()
        model.load_state_dict(kept)  # harm
        return loss


class Surrogate(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.inner = nn.Linear(3, width)
        self.outer = nn.Linear(width, 1)

    def forward(self, x):
        return self.outer(F.softplus(self.inner(x)))  # saves


def target(x):
    return x[:, :1].sin() + x[:, 1:2] * x[:, 2:]


class Experiment:
    def __init__(self, seed=14):
        torch.manual_seed(seed)
        self.model = Surrogate()
        self.averager = Averager(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.held_out = torch.randn(10, 3)
        self.reports = []

    def step(self):
        x = torch.randn(8, 3)
        loss = F.mse_loss(self.model(x), target(x))
        self.optimizer.zero_grad()
        self.reports.append(self.averager.report(self.model, self.held_out, target(self.held_out)))  # [bug]
        loss.backward()
        self.reports.append(self.averager.report(self.model, self.held_out, target(self.held_out)))  # [fixed]
        self.optimizer.step()
        self.averager.update(self.model)
        return loss.item()


def main():
    experiment = Experiment()
    for number in range(3):
        loss = experiment.step()
        print(f"step {number}: {loss:.5f}, averaged {experiment.reports[-1]:.5f}")


if __name__ == "__main__":
    main()
