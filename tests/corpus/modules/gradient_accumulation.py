"""Micro-batches are accumulated; the step is taken inside the loop while later losses are already built."""

# bug: raises-backward, tensor=weight
# fixed: correct
# averaged: correct
import torch
from torch import nn


def make():
    torch.manual_seed(151)
    net = nn.Sequential(nn.Linear(2, 3), nn.SiLU(), nn.Linear(3, 1))
    return net, torch.randn(3, 4, 2), torch.randn(3, 4, 1)


def run():
    net, xs, ys = make()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    optimizer.zero_grad()
    losses = [(net(x) - y).pow(2).mean() for x, y in zip(xs, ys)]  # [bug] saves
    losses = [(net(x) - y).pow(2).mean() for x, y in zip(xs, ys)]  # [averaged]
    for index in range(len(xs)):
        loss = losses[index] / len(xs)  # [bug averaged]
        loss = (net(xs[index]) - ys[index]).pow(2).mean() / len(xs)  # [fixed]
        loss.backward()
        if index == 0:  # [bug]
            optimizer.step()  # [bug] harm
    first = {name: parameter.grad.clone() for name, parameter in net.named_parameters()}
    optimizer.step()
    optimizer.zero_grad()
    return first


# truth
def truth():
    net, xs, ys = make()
    loss = sum((net(x) - y).pow(2).mean() for x, y in zip(xs, ys)) / 3
    names = [name for name, _ in net.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(net.parameters()))))
