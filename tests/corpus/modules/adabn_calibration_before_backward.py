"""A calibration in train mode writes the running statistics that the eval-mode batch norm has saved."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn
from contextlib import contextmanager


@contextmanager
def mode(net, train):
    was = net.training
    try:
        yield net.train(train)
    finally:
        net.train(was)


def entropy(logits):
    lp = logits.log_softmax(-1)
    return -(lp.exp() * lp).sum(-1).mean()


@torch.no_grad()
def calibrate(net, batches):
    with mode(net, True):
        for b in batches:
            net(b)  # harm


def make():
    torch.manual_seed(19)
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    net[1].running_var.fill_(0.6)
    test = torch.randn(10, 4)
    return net, test, [3 * torch.randn(16, 4) + 1 for _ in range(3)]


def run():
    net, test, unlabeled = make()
    with mode(net, False):
        loss = entropy(net(test))  # saves
    calibrate(net, unlabeled)
    loss.backward()
    return {"fc": net[0].weight.grad, "gamma": net[1].weight.grad}
