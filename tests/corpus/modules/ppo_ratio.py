"""The probability ratio is clamped in place although exp has saved it."""

# raises-backward
import torch
from torch import nn


def mlp(sizes):
    layers = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(i, o), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def gaussian_logp(mu, log_std, a):
    return (-0.5 * ((a - mu) / log_std.exp()) ** 2 - log_std).sum(-1)


def make():
    torch.manual_seed(8)
    net = mlp([3, 6, 2])
    log_std = nn.Parameter(torch.full((2,), -0.5))
    data = dict(obs=torch.randn(12, 3), act=torch.randn(12, 2), adv=torch.randn(12))
    with torch.no_grad():
        data["logp_old"] = gaussian_logp(net(data["obs"]), log_std, data["act"]) + 0.3 * torch.randn(12)
    return net, log_std, data


def compute_loss_pi(net, log_std, data, clip=0.2):
    logp = gaussian_logp(net(data["obs"]), log_std, data["act"])
    ratio = torch.exp(logp - data["logp_old"])  # saves
    unclipped = ratio * data["adv"]
    ratio.clamp_(1 - clip, 1 + clip)  # harm
    clipped = ratio * data["adv"]
    return -torch.min(unclipped, clipped).mean()


def run():
    net, log_std, data = make()
    loss = compute_loss_pi(net, log_std, data)
    loss.backward()
    return {"first": net[0].weight.grad, "log_std": log_std.grad}
