"""Every in-place operation of a hand-written swish meets a tensor made fresh inside forward or backward."""

# correct
import torch
from torch import nn
from torch.autograd import Function


class SwishFn(Function):
    @staticmethod
    def forward(ctx, x, beta):
        gate = x * beta
        gate.sigmoid_()
        ctx.save_for_backward(x, beta, gate)
        out = gate.clone()
        out.mul_(x)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, beta, gate = ctx.saved_tensors
        slope = 1 - gate
        slope.mul_(gate)
        grad_beta = (slope * x).mul_(x).mul_(grad_out).sum().reshape_as(beta)
        grad_x = slope.mul_(x).mul_(beta).add_(gate).mul_(grad_out)
        return grad_x, grad_beta


class Swish(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor([1.3]))

    def forward(self, x):
        return SwishFn.apply(x, self.beta)


def make():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 8), Swish(), nn.Linear(8, 1))
    return net, torch.randn(10, 5), torch.randn(10, 1)


def run():
    net, x, y = make()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    return {"w1": net[0].weight.grad, "beta": net[1].beta.grad, "w2": net[2].weight.grad}


# truth
def truth():
    SwishFn.apply = staticmethod(lambda x, beta: x * torch.sigmoid(beta * x))
    return run()
