"""A checkpointed block works in place on its input, which the recomputation then meets in its new form."""

# bug: silently-wrong, tensor=h, watch=blind
# fixed: correct
# inside: correct
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)

    def forward(self, x):
        x = self.a(x)  # [inside]
        x.data.mul_(0.5)  # [bug] harm
        x = x * 0.5  # [fixed]
        x.mul_(0.5)  # [inside]
        return torch.tanh(self.b(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(2, 3)
        self.block = Block(3)

    def forward(self, x):
        h = self.stem(x)
        h = checkpoint(self.block, h, use_reentrant=False)
        return h


def make():
    torch.manual_seed(157)
    return Net(), torch.randn(4, 2)


def run():
    net, x = make()
    loss = net(x).pow(2).sum()
    loss.backward()
    return {"stem": net.stem.weight.grad, "b": net.block.b.weight.grad}


# truth
def truth():
    net, x = make()
    h = net.stem(x)
    h = net.block.a(h)  # [inside]
    loss = torch.tanh(net.block.b(h * 0.5)).pow(2).sum()
    stem, b = torch.autograd.grad(loss, [net.stem.weight, net.block.b.weight])
    return {"stem": stem, "b": b}
