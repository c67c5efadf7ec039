"""A memory-saving ReLU clamps its input in place without mark_dirty; the skip connection's gradient does not know."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn
from torch.autograd import Function


class LeanReLU(Function):
    @staticmethod
    def forward(ctx, x):
        mask = x > 0
        ctx.save_for_backward(mask)
        x.clamp_(min=0)  # [bug] harm
        x = x.clamp(min=0)  # [fixed]
        return x.sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask


class Gate(nn.Module):
    def forward(self, x):
        return LeanReLU.apply(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)
        self.gate = Gate()

    def forward(self, x):
        h = self.lin(x)
        squeeze = self.gate(h)
        return h + squeeze


def make():
    torch.manual_seed(40)
    return Net(), torch.randn(5, 3), torch.randn(5, 4)


def run():
    net, x, probe = make()
    loss = (net(x) * probe).sum()
    loss.backward()
    return {"weight": net.lin.weight.grad, "bias": net.lin.bias.grad}


# truth
def truth():
    LeanReLU.apply = staticmethod(lambda x: x.clamp_(min=0).sum(-1, keepdim=True))  # [bug]
    LeanReLU.apply = staticmethod(lambda x: x.clamp(min=0).sum(-1, keepdim=True))  # [fixed]
    return run()
