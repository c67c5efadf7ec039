"""A hand-written activation works in place to save memory and forgets to say so."""

# bug: silently-wrong, tensor=x
# fixed: correct
# dirty: correct
import torch
from torch import nn


class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        ctx.save_for_backward(x > 0)
        x.detach().numpy()[x.detach().numpy() < 0] *= slope  # [bug] harm
        return x.clone()  # [bug]
        return torch.where(x > 0, x, slope * x)  # [fixed]
        ctx.mark_dirty(x)  # [dirty]
        return x.mul_(torch.where(x > 0, 1.0, slope))  # [dirty]

    @staticmethod
    def backward(ctx, grad):
        (positive,) = ctx.saved_tensors
        return torch.where(positive, grad, ctx.slope * grad), None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        h = self.a(x)
        energy = (h * h).mean()  # [bug fixed] saves
        energy = h.mean() * 2  # [dirty]
        return self.b(Leaky.apply(h, 0.2)), energy


def make():
    torch.manual_seed(113)
    return Net(), torch.randn(5, 3)


def run():
    net, x = make()
    out, energy = net(x)
    loss = out.pow(2).mean() + energy
    loss.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}


# truth
def truth():
    net, x = make()
    h = net.a(x)
    energy = h.pow(2).mean()  # [bug fixed]
    energy = h.mean() * 2  # [dirty]
    out = net.b(nn.functional.leaky_relu(h, 0.2))
    names = [name for name, _ in net.named_parameters()]
    return dict(zip(names, torch.autograd.grad(out.pow(2).mean() + energy, list(net.parameters()))))
