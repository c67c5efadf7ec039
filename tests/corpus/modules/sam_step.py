"""Sharpness-aware minimisation: climb, backward again, come back."""

# correct_sam: correct
# stale: raises-backward, tensor=weight
# stale_data: silently-wrong, tensor=weight
import torch
import torch.nn.functional as F
from torch import nn


class SAM:
    def __init__(self, params, base, rho):
        self.params = list(params)
        self.base = base(self.params, lr=0.1)
        self.rho = rho
        self.e = {}

    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        for p in self.params:
            e = p.grad * (self.rho / (norm + 1e-12))
            with torch.no_grad():  # [correct_sam stale]
                p.add_(e)  # [correct_sam]
                p.add_(e)  # [stale] harm
            p.data.add_(e)  # [stale_data] harm
            self.e[p] = e

    def restore(self):
        for p in self.params:
            p.data.sub_(self.e[p])

    def zero(self):
        self.base.zero_grad(set_to_none=False)


def make():
    torch.manual_seed(70)
    net = nn.Sequential(nn.Linear(3, 4), nn.Mish(), nn.Linear(4, 2))
    return net, torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])


def run():
    net, x, y = make()
    opt = SAM(net.parameters(), torch.optim.SGD, rho=0.5)

    def loss_fn():
        return F.cross_entropy(net(x), y)

    loss = loss_fn()
    loss.backward(retain_graph=True)
    opt.climb()
    opt.zero()
    loss = loss_fn()  # [correct_sam]
    loss.backward()
    opt.restore()  # [correct_sam]
    opt.base.step()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x, y = make()
    ps = [p.detach().clone().requires_grad_() for p in net.parameters()]

    def value(q):
        return F.cross_entropy(F.linear(F.mish(F.linear(x, q[0], q[1])), q[2], q[3]), y)

    g = torch.autograd.grad(value(ps), ps)
    norm = torch.stack([v.norm() for v in g]).norm()
    up = [(p + v * 0.5 / (norm + 1e-12)).detach().requires_grad_() for p, v in zip(ps, g)]
    g = torch.autograd.grad(value(up), up)  # [correct_sam]
    return dict(zip([n for n, _ in net.named_parameters()], g))
