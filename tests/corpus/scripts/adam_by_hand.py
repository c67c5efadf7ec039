"""Adam and gradient centralisation written out with in-place operations on moments and gradients; right."""

# correct
import math

import torch
from torch import nn


class HandAdam:
    def __init__(self, parameters, lr=1e-2, betas=(0.9, 0.99), eps=1e-8, decay=0.01):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        one, two = self.betas
        for p, m, v in zip(self.parameters, self.first, self.second):
            if p.grad is None:
                continue
            if p.dim() > 1:
                p.grad.sub_(p.grad.mean(dim=1, keepdim=True))
            m.mul_(one).add_(p.grad, alpha=1 - one)
            v.mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
            size = v.sqrt().div_(math.sqrt(1 - two**self.steps)).add_(self.eps)
            p.mul_(1 - self.lr * self.decay)
            p.addcdiv_(m, size, value=-self.lr / (1 - one**self.steps))


class Cosine:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps, self.peak, self.now = optimizer, steps, optimizer.lr, 0

    def step(self):
        self.now += 1
        self.optimizer.lr = self.peak * (1 + math.cos(math.pi * self.now / self.steps)) / 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = layer(x)
            x.relu_()
        return self.layers[-1](x)


def checkers(count, generator):
    x = torch.rand(count, 2, generator=generator) * 4
    return x, (x.floor().sum(1, keepdim=True) % 2)


def main():
    torch.manual_seed(104)
    generator = torch.Generator().manual_seed(104)
    net = Net()
    with torch.no_grad():
        for layer in net.layers:
            layer.weight.normal_(0, math.sqrt(2 / layer.in_features))
            layer.bias.zero_()
    optimizer = HandAdam(net.parameters())
    schedule = Cosine(optimizer, 4)
    for step in range(4):
        x, y = checkers(16, generator)
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step}: {loss.item():.5f} lr {optimizer.lr:.5f}")


if __name__ == "__main__":
    main()
