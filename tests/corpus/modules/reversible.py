"""RevNet block: backward reconstructs its inputs by subtracting in place from the outputs."""

# careful: correct
# clobber: raises-backward
import torch
from torch import nn


class Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, f, g, *params):
        ctx.f, ctx.g, ctx.params = f, g, params
        with torch.no_grad():
            a, b = x.chunk(2, 1)
            ya = a + f(b)
            yb = b + g(ya)
            y = torch.cat([ya, yb], 1)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, dy):
        y = ctx.y.clone()  # [careful]
        y = ctx.y  # [clobber]
        ya, yb = y.chunk(2, 1)
        with torch.no_grad():
            yb -= ctx.g(ya)  # [careful]
            yb.sub_(ctx.g(ya))  # [clobber] harm
            ya -= ctx.f(yb)  # [careful]
            ya.sub_(ctx.f(yb))  # [clobber] harm
        with torch.enable_grad():
            a, b = ya.detach().requires_grad_(), yb.detach().requires_grad_()
            oa = a + ctx.f(b)
            ob = b + ctx.g(oa)
            out = torch.cat([oa, ob], 1)
        grads = torch.autograd.grad(out, (a, b, *ctx.params), dy)
        return (torch.cat(grads[:2], 1), None, None, *grads[2:])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.g = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        y = Reversible.apply(x, self.f, self.g, *self.f.parameters(), *self.g.parameters())
        return self.head(x) * y, y


def make():
    torch.manual_seed(72)
    return Net(), torch.randn(3, 4)


def run():
    net, x = make()
    x.requires_grad_()
    out, y = net(x)
    out.sum().backward(retain_graph=True)
    first = {n: p.grad.clone() for n, p in net.named_parameters()}
    net.zero_grad()
    out.sum().backward()  # [clobber]
    out.sum().backward()  # [careful]
    return {n: p.grad for n, p in net.named_parameters()} if first else {}


# truth
def truth():
    net, x = make()
    a, b = x[:, :2], x[:, 2:]
    ya = a + net.f(b)
    yb = b + net.g(ya)
    out = net.head(x) * torch.cat([ya, yb], 1)
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(out.sum(), list(net.parameters()))))
