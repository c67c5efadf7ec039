"""A hand-written backward works in place on its incoming gradient (contiguous() is no copy), which the skip shares."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
import torch.nn as nn


class MaskedTanh(torch.autograd.Function):
    """tanh whose backward skips the padded tokens"""

    @staticmethod
    def forward(ctx, x, keep):
        out = torch.tanh(x) * keep
        ctx.save_for_backward(out, keep)
        return out

    @staticmethod
    def backward(ctx, grad):
        out, keep = ctx.saved_tensors
        grad = grad.contiguous()  # [bug]
        grad = grad.clone()  # [fixed]
        grad.mul_(1 - out * out).mul_(keep)  # [bug] harm
        grad.mul_(1 - out * out).mul_(keep)  # [fixed]
        return grad, None


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.proj = nn.Linear(d, d)

    def forward(self, x, keep):
        h = self.proj(x)
        return h + MaskedTanh.apply(h, keep)


def make():
    torch.manual_seed(21)
    keep = torch.tensor([1.0, 1.0, 0.0, 1.0]).unsqueeze(-1)
    return Block(5), torch.randn(4, 5), keep, torch.randn(4, 5)


def run():
    block, tokens, keep, probe = make()
    out = block(tokens, keep)
    (out * probe).sum().backward()
    return {"w": block.proj.weight.grad, "b": block.proj.bias.grad}


# truth
def truth():
    MaskedTanh.apply = staticmethod(lambda x, keep: torch.tanh(x) * keep)
    return run()
