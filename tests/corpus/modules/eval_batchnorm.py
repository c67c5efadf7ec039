"""Fine-tuning with frozen BN; recalibrating its statistics before backward."""

# recalibrate: silently-wrong, tensor=running_mean
# after: correct
# training_mode: correct
import torch
from torch import nn


def set_bn(net, training):
    for m in net.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.train(training)


@torch.no_grad()
def recalibrate(net, loader):
    set_bn(net, True)
    for x in loader:
        net(x)  # [recalibrate] harm
        net(x)  # [after training_mode]
    set_bn(net, False)


def make():
    torch.manual_seed(84)
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 1))
    net[1].running_mean.fill_(0.4)
    net[1].running_var.fill_(2.0)
    return net, torch.randn(6, 2), [torch.randn(4, 2) + 1 for _ in range(2)]


def run():
    net, x, loader = make()
    set_bn(net, False)  # [recalibrate after]
    out = net(x)
    loss = (out - 1).pow(2).mean()
    recalibrate(net, loader)  # [recalibrate training_mode]
    loss.backward()
    recalibrate(net, loader)  # [after]
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x, _ = make()
    h = net[0](x)
    mean, var = torch.tensor(0.4), torch.tensor(2.0)
    mean, var = h.mean(0), h.var(0, unbiased=False)  # [training_mode]
    h = (h - mean) / (var + 1e-5).sqrt() * net[1].weight + net[1].bias
    out = net[3](h.tanh())
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad((out - 1).pow(2).mean(), list(net.parameters()))))
