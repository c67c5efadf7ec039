"""register_forward_hook that rescales activations (debugging exploding features)"""

# bug: raises-backward, tensor=output
# silent: silently-wrong, watch=blind
# fixed: correct
# conv: correct
from functools import partial

import torch
from torch import nn


def rescale(module, inputs, output, limit):
    peak = output.detach().abs().max()
    output.mul_(limit / peak)  # [bug] harm
    output.data.mul_(limit / peak)  # [silent] harm
    output.mul_(limit / peak)  # [conv]
    return output * (limit / peak)  # [fixed]


def instrument(net, kinds, limit):
    handles = []
    for m in net.modules():
        if isinstance(m, kinds):
            handles.append(m.register_forward_hook(partial(rescale, limit=limit)))
    return handles


def make():
    torch.manual_seed(44)
    net = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    return net, torch.randn(5, 3)


def run():
    net, x = make()
    kinds = (nn.Tanh,)  # [bug silent fixed]
    kinds = (nn.Linear,)  # [conv]
    handles = instrument(net, kinds, 0.5)
    loss = net(x).mean()
    loss.backward()
    for h in handles:
        h.remove()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x = make()
    h = x
    for m in net:
        h = m(h)
        if isinstance(m, nn.Tanh):  # [bug silent fixed]
            h = h * (0.5 / h.detach().abs().max())  # [bug silent fixed]
        if isinstance(m, nn.Linear):  # [conv]
            h = h * (0.5 / h.detach().abs().max())  # [conv]
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(h.mean(), list(net.parameters()))))
