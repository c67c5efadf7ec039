"""MAML on sine waves: each outer step differentiates through five inner ones, for four tasks."""

import argparse

import torch
from torch import nn
from torch.nn import functional


def parameters(sizes):
    """Return weights and biases in turn."""
    made = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        made += [nn.Parameter(torch.randn(after, before) / before**0.5), nn.Parameter(torch.zeros(after))]
    return made


def network(x, weights):
    """Return the network's output with these weights."""
    for place in range(0, len(weights) - 2, 2):
        x = torch.relu(functional.linear(x, weights[place], weights[place + 1]))
    return functional.linear(x, weights[-2], weights[-1])


def adapted(weights, x, y, steps=5, rate=0.01):
    """Return the weights after the inner steps, with their history."""
    for _ in range(steps):
        gradients = torch.autograd.grad(functional.mse_loss(network(x, weights), y), weights, create_graph=True)
        weights = [weight - rate * gradient for weight, gradient in zip(weights, gradients, strict=True)]
    return weights


def main():
    """Trains for so many outer steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    weights = parameters((1, 40, 40, 1))
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    for step in range(steps):
        losses = []
        for _ in range(4):
            height, phase = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3
            x, later = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
            fast = adapted(weights, x, height * torch.sin(x + phase))
            losses.append(functional.mse_loss(network(later, fast), height * torch.sin(later + phase)))
        loss = torch.stack(losses).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
