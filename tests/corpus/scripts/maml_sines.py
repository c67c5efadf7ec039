"""MAML on sine waves: the inner step writes into the copies that the first forward pass has saved."""

# bug: raises-backward
# fixed: correct
import math

import torch
import torch.nn.functional as F
from torch import nn


class Sine:
    """One task: a wave of its own amplitude and phase."""

    def __init__(self, generator):
        self.amplitude = 0.5 + 2 * torch.rand(1, generator=generator)
        self.phase = math.pi * torch.rand(1, generator=generator)
        self.generator = generator

    def sample(self, count):
        x = 10 * torch.rand(count, 1, generator=self.generator) - 5
        return x, self.amplitude * torch.sin(x + self.phase)


class Regressor(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(width, 1) * 0.5)
        self.b1 = nn.Parameter(torch.zeros(width))
        self.w2 = nn.Parameter(torch.randn(1, width) * 0.3)
        self.b2 = nn.Parameter(torch.zeros(1))

    def copies(self):
        return [p.clone() for p in self.parameters()]

    @staticmethod
    def functional(x, weights):
        w1, b1, w2, b2 = weights
        hidden = torch.tanh(F.linear(x, w1, b1))
        return F.linear(hidden, w2, b2)  # saves


class MAML:
    def __init__(self, inner_lr=0.02, inner_steps=2):
        self.model = Regressor()
        self.outer = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        self.inner_lr, self.inner_steps = inner_lr, inner_steps

    def adapt(self, x, y):
        weights = self.model.copies()
        for _ in range(self.inner_steps):
            loss = F.mse_loss(self.model.functional(x, weights), y)
            grads = torch.autograd.grad(loss, weights, create_graph=True)
            for weight, grad in zip(weights, grads):  # [bug]
                weight -= self.inner_lr * grad  # [bug] harm
            weights = [weight - self.inner_lr * grad for weight, grad in zip(weights, grads)]  # [fixed]
        return weights

    def outer_step(self, tasks):
        self.outer.zero_grad()
        total = 0.0
        for task in tasks:
            weights = self.adapt(*task.sample(6))
            x, y = task.sample(6)
            loss = F.mse_loss(self.model.functional(x, weights), y) / len(tasks)
            loss.backward()
            total += loss.item()
        self.outer.step()
        return total


torch.manual_seed(0)
generator = torch.Generator().manual_seed(9)
maml = MAML()
for iteration in range(3):
    loss = maml.outer_step([Sine(generator) for _ in range(2)])
    print(f"iteration {iteration}: {loss:.5f}")
