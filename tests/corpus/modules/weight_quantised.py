"""Quantisation-aware training: weights are rounded for the forward pass and put back for the update."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# straight: correct
import torch
from torch import nn


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, step):
        return (weight / step).round() * step

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Quantised(nn.Linear):
    step = 0.5

    def forward(self, x):
        full = self.weight.data.clone()  # [bug fixed]
        self.weight.data = (full / self.step).round() * self.step  # [bug fixed]
        out = x * self.weight  # [bug fixed] saves
        self.weight.data = full  # [bug] harm
        self.kept = full  # [fixed]
        out = x * RoundThrough.apply(self.weight, self.step)  # [straight]
        return out.sum(-1) + self.bias


def make():
    torch.manual_seed(89)
    return nn.Linear(3, 3), Quantised(3, 1), torch.randn(4, 3)


def run():
    body, head, x = make()
    hidden = torch.tanh(body(x))
    loss = head(hidden).pow(2).mean()
    loss.backward()
    head.weight.data = head.kept  # [fixed]
    return {"body": body.weight.grad, "head": head.weight.grad}


# truth
def truth():
    body, head, x = make()
    w = ((head.weight.detach() / 0.5).round() * 0.5).requires_grad_()
    out = (torch.tanh(body(x)) * w).sum(-1) + head.bias
    first, second = torch.autograd.grad(out.pow(2).mean(), [body.weight, w])
    return {"body": first, "head": second}
