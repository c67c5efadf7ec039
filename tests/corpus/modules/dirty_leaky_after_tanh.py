"""An in-place Function, correctly declared, overwrites the output that tanh has saved."""

# raises-backward
import torch
import torch.nn as nn


class InplaceLeaky(torch.autograd.Function):
    """Overwrites its input; keeps only a bool mask for backward."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.mark_dirty(x)
        negative = x < 0
        ctx.slope = slope
        ctx.save_for_backward(negative)
        x[negative] *= slope  # harm
        return x

    @staticmethod
    def backward(ctx, grad_y):
        (negative,) = ctx.saved_tensors
        grad_x = grad_y.clone()
        grad_x[negative] *= ctx.slope
        return grad_x, None


class TinyNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.squash = nn.Tanh()
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        h = self.squash(self.fc(x))  # saves
        h = InplaceLeaky.apply(h, 0.1)  # harm
        return self.head(h)


def make():
    torch.manual_seed(11)
    return TinyNet(), torch.randn(4, 4), torch.randint(0, 2, (4,))


def run():
    model, x, target = make()
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}
