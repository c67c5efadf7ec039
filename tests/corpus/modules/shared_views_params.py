"""All parameters live in one flat buffer (for all-reduce); the loop writes the flat vector."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# grads: correct
import torch
from torch import nn


class Flat:
    def __init__(self, module):
        self.params = list(module.parameters())
        self.buffer = torch.cat([p.detach().reshape(-1) for p in self.params])
        self.grads = torch.zeros_like(self.buffer)
        offset = 0
        for p in self.params:
            n = p.numel()
            p.data = self.buffer[offset : offset + n].view_as(p)
            p.grad = self.grads[offset : offset + n].view_as(p)
            offset += n

    def decay(self, rate):
        self.buffer.mul_(1 - rate)  # [bug] harm
        self.buffer.mul_(1 - rate)  # [fixed]
        self.grads.mul_(1.0)  # [grads]


class Poly(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.b = nn.Parameter(torch.tensor([1.0, 0.3]))

    def forward(self, x):
        return (self.a**2 * x).sum() * self.b.prod()


def make():
    net = Poly()
    return net, Flat(net), torch.tensor([1.0, 2.0, 3.0])


def run():
    net, flat, x = make()
    loss = net(x)
    flat.decay(0.1)  # [bug grads]
    loss.backward()
    flat.decay(0.1)  # [fixed]
    return {"a": net.a.grad, "b": net.b.grad}


# truth
def truth():
    a = torch.tensor([0.5, -1.0, 2.0])
    b = torch.tensor([1.0, 0.3])
    x = torch.tensor([1.0, 2.0, 3.0])
    return {"a": 2 * a * x * b.prod(), "b": (a * a * x).sum() * b.flip(0)}
