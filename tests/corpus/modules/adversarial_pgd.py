"""Projected gradient descent on an input: the perturbation is projected in place between forward and backward."""

# bug: silently-wrong, tensor=delta
# fixed: correct
# no_grad: raises-backward, tensor=delta
import torch
from torch import nn


def make():
    torch.manual_seed(197)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    return net, torch.randn(4, 3), torch.tensor([0, 1, 1, 0])


def attack(net, x, labels, steps, size=0.5, bound=0.2):
    delta = torch.full_like(x, 0.3).requires_grad_()
    for _ in range(steps):
        delta.data.clamp_(-bound, bound)  # [fixed]
        penalty = (delta * delta).sum()  # saves
        loss = nn.functional.cross_entropy(net(x + delta), labels) - penalty
        delta.data.clamp_(-bound, bound)  # [bug] harm
        with torch.no_grad():  # [no_grad]
            delta.clamp_(-bound, bound)  # [no_grad] harm
        delta.grad = None
        loss.backward()
        kept = delta.grad.clone()
        with torch.no_grad():
            delta += size * delta.grad.sign()
    return kept


def run():
    net, x, labels = make()
    return {"delta": attack(net, x, labels, steps=1)}


# truth
def truth():
    net, x, labels = make()
    delta = torch.full_like(x, 0.3)
    delta = delta.clamp(-0.2, 0.2)  # [fixed]
    delta.requires_grad_()
    loss = nn.functional.cross_entropy(net(x + delta), labels) - delta.pow(2).sum()
    return {"delta": torch.autograd.grad(loss, delta)[0]}
