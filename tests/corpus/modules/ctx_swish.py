"""A swish keeps its input as a plain attribute of ctx, which an in-place dropout on the same tensor then changes unseen."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn


class SwishFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.i = i  # [bug]
        ctx.i = i.clone()  # [fixed]
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx, grad_output):
        s = torch.sigmoid(ctx.i)
        return grad_output * (s * (1 + ctx.i * (1 - s)))


class MemoryEfficientSwish(nn.Module):
    def forward(self, x):
        return SwishFn.apply(x)


class SEBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.reduce = nn.Linear(ch, ch)
        self.expand = nn.Linear(ch, ch)
        self.act = MemoryEfficientSwish()
        self.drop = nn.Dropout(0.4, inplace=True)

    def forward(self, x):
        z = self.reduce(x)
        gate = self.expand(self.act(z)).sigmoid()
        skip = self.drop(z)  # [bug] harm
        skip = self.drop(z)  # [fixed]
        return skip + gate * x


def make():
    torch.manual_seed(13)
    return SEBlock(5), torch.randn(4, 5)


def run():
    block, x = make()
    block.train()
    block(x).square().mean().backward()
    return {k: p.grad for k, p in block.named_parameters()}


# truth
def truth():
    SwishFn.apply = staticmethod(lambda i: nn.functional.silu(i.clone()))
    return run()
