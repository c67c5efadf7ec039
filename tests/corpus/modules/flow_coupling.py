"""A coupling layer of a normalising flow transforms half of its input in place."""

# bug: raises-backward
# fixed: correct
# cloned: correct
import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, width, flip):
        super().__init__()
        self.half, self.flip = width // 2, flip
        self.net = nn.Sequential(nn.Linear(width // 2, 4), nn.Tanh(), nn.Linear(4, width))

    def forward(self, x):
        a, b = x[:, : self.half], x[:, self.half :]
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, dim=1)  # [bug] saves
        scale, shift = self.net(a.clone()).chunk(2, dim=1)  # [cloned]
        scale, shift = self.net(a).chunk(2, dim=1)  # [fixed]
        new = b * torch.exp(scale) + shift  # [fixed]
        new = b.clone() * torch.exp(scale) + shift  # [bug cloned]
        b.copy_(new)  # [bug] harm
        b.copy_(new)  # [cloned]
        x = torch.cat([new, a] if self.flip else [a, new], dim=1)  # [fixed]
        return x, scale.sum(1)


def make():
    torch.manual_seed(193)
    return nn.ModuleList([Coupling(4, False), Coupling(4, True)]), torch.randn(5, 4)


def run():
    flow, data = make()
    x = data.clone()
    log_det = torch.zeros(len(data))
    for layer in flow:
        x, part = layer(x)
        log_det = log_det + part
    loss = (0.5 * x.pow(2).sum(1) - log_det).mean()
    loss.backward()
    return {name: parameter.grad for name, parameter in flow.named_parameters()}


# truth
def truth():
    flow, x = make()
    log_det = 0
    for layer in flow:
        a, b = x.split(2, dim=1)
        if layer.flip:
            a, b = b, a
        scale, shift = layer.net(a).split(2, dim=1)
        b = b * scale.exp() + shift
        x, log_det = torch.cat([b, a] if layer.flip else [a, b], 1), log_det + scale.sum(1)
    loss = (0.5 * x.pow(2).sum(1) - log_det).mean()
    names = [name for name, _ in flow.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(flow.parameters()))))
