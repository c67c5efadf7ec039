"""A hand-written backward multiplies its incoming gradient in place, which the addition handed to the skip branch too."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
import torch.nn as nn
from torch.autograd import Function


class HardGate(Function):
    @staticmethod
    def forward(ctx, x, thr):
        keep = x.abs() > thr
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad_output):
        (keep,) = ctx.saved_tensors
        grad_output *= keep  # [bug] harm
        grad_output = grad_output * keep  # [fixed]
        return grad_output, None


def hard_gate(x, thr=0.5):
    return HardGate.apply(x, thr)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.skip = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.skip(x) + hard_gate(self.up(x))


def make():
    torch.manual_seed(22)
    stack = nn.Sequential(*[Residual(4) for _ in range(3)])
    return stack, torch.randn(5, 4)


def run():
    stack, x = make()
    out = stack(x)
    out.pow(2).sum().backward()
    return {n: p.grad for n, p in stack.named_parameters()}


# truth
def truth():
    HardGate.apply = staticmethod(lambda x, thr: torch.where(x.abs() > thr, x, 0.0))
    return run()
