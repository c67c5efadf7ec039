"""An in-place Function declares mark_dirty and recovers the slope from the sign of the output that it saved."""

# correct
import torch
import torch.nn as nn


class InplaceLeaky(torch.autograd.Function):
    """like inplace-ABN: backward is recovered from the OUTPUT"""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.mark_dirty(x)
        x[x < 0] *= slope
        ctx.slope = slope
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, gy):
        (y,) = ctx.saved_tensors
        gx = gy.clone()
        gx[y < 0] *= ctx.slope
        return gx, None


class Leaky_(nn.Module):
    def __init__(self, slope=0.1):
        super().__init__()
        self.slope = slope

    def extra_repr(self):
        return f"{self.slope}, inplace"

    def forward(self, x):
        return InplaceLeaky.apply(x, self.slope)


def stack(*dims):
    return nn.Sequential(*(m for a, b in zip(dims, dims[1:]) for m in (nn.Linear(a, b), Leaky_())))


def make():
    torch.manual_seed(64)
    return stack(3, 5, 5, 2), torch.randn(6, 3)


def run():
    net, x = make()
    y = net(x)
    loss = (y.sum(1) - 1).abs().mean()
    loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    InplaceLeaky.apply = staticmethod(nn.functional.leaky_relu)
    return run()
