"""Reptile: fast weights are trained by plain steps under no_grad, and the slow ones move towards them; right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Wave:
    def __init__(self, generator):
        self.amplitude = 0.5 + torch.rand(1, generator=generator)
        self.shift = 3 * torch.rand(1, generator=generator)
        self.generator = generator

    def batch(self, count):
        x = torch.rand(count, 1, generator=self.generator) * 6 - 3
        return x, self.amplitude * torch.sin(x + self.shift)


class Model(nn.Module):
    def __init__(self, width=14):
        super().__init__()
        self.stack = nn.Sequential(
            nn.Linear(1, width),
            nn.ELU(inplace=True),
            nn.Linear(width, width),
            nn.ELU(inplace=True),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.stack(x)


class Reptile:
    def __init__(self, model, inner_lr=0.02, outer_lr=0.3, inner_steps=3):
        self.model = model
        self.inner_lr, self.outer_lr, self.inner_steps = inner_lr, outer_lr, inner_steps

    def snapshot(self):
        return [p.detach().clone() for p in self.model.parameters()]

    @torch.no_grad()
    def restore(self, values):
        for p, value in zip(self.model.parameters(), values):
            p.copy_(value)

    def inner(self, task):
        for _ in range(self.inner_steps):
            x, y = task.batch(8)
            loss = F.mse_loss(self.model(x), y)
            self.model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in self.model.parameters():
                    p -= self.inner_lr * p.grad
        return loss.item()

    def outer(self, tasks):
        slow = self.snapshot()
        moves = [torch.zeros_like(value) for value in slow]
        losses = []
        for task in tasks:
            losses.append(self.inner(task))
            for move, p, value in zip(moves, self.model.parameters(), slow):
                move.add_(p.detach() - value, alpha=1 / len(tasks))
            self.restore(slow)
        for value, move in zip(slow, moves):
            value.add_(move, alpha=self.outer_lr)
        self.restore(slow)
        return sum(losses) / len(losses)


def main():
    torch.manual_seed(112)
    generator = torch.Generator().manual_seed(112)
    reptile = Reptile(Model())
    for number in range(2):
        print(f"round {number}: {reptile.outer([Wave(generator), Wave(generator)]):.5f}")


if __name__ == "__main__":
    main()
