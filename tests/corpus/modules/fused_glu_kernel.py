"""A NumPy kernel writes the gate's gradient into the memory of the gate that sigmoid has saved."""

# bug: silently-wrong, watch=blind
# fixed: correct
import numpy as np
import torch
import torch.nn as nn


def glu_bwd_kernel(g, a, b):
    ga = np.multiply(g, b)
    np.multiply(g, a, out=b)  # [bug] harm
    b = np.multiply(g, a)  # [fixed]
    return ga, b


class LeanGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        ga, gb = glu_bwd_kernel(g.contiguous().numpy(), a.detach().numpy(), b.detach().numpy())
        return torch.from_numpy(ga), torch.from_numpy(gb)


class FFN(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.up = nn.Linear(d, h)
        self.gate = nn.Linear(d, h)
        self.down = nn.Linear(h, d)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return self.down(LeanGLU.apply(self.up(x), gate))


def make():
    torch.manual_seed(2)
    return FFN(3, 5), torch.randn(4, 3)


def run():
    ffn, x = make()
    ffn(x).pow(2).sum().backward()
    return {"up": ffn.up.weight.grad, "gate": ffn.gate.weight.grad}


# truth
def truth():
    LeanGLU.apply = staticmethod(lambda a, b: a * b)
    return run()
