"""SimSiam / BYOL / target encoders: detached branches with in-place housekeeping."""

# simsiam: correct
# queue: correct
# centred: correct
# shared: raises-backward, tensor=z
import torch
import torch.nn.functional as F
from torch import nn


class Siam(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))
        self.pred = nn.Linear(3, 3)
        self.register_buffer("centre", torch.zeros(3))
        self.register_buffer("bank", torch.zeros(4, 3))

    def loss(self, x1, x2):
        z1, z2 = self.enc(x1), self.enc(x2)
        p1 = self.pred(z1)
        target = z2.detach()
        self.bank[:2] = target  # [queue]
        self.bank[2:].copy_(self.bank[:2])  # [queue]
        self.centre.mul_(0.9).add_(target.mean(0), alpha=0.1)  # [centred]
        target = target - self.centre  # [centred]
        target = F.normalize(target, dim=1)
        reg = z2.pow(2).mean()  # [shared] saves
        z2.detach().sub_(z2.detach().mean(0))  # [shared] harm
        reg = z2.pow(2).mean()  # [simsiam queue centred]
        return -(F.normalize(p1, dim=1) * target).sum(1).mean() + 0.1 * reg


def make():
    torch.manual_seed(90)
    return Siam(), torch.randn(2, 3), torch.randn(2, 3)


def run():
    model, a, b = make()
    total = 0.0
    for views in ((a, b), (b, a)):
        total = total + model.loss(*views)
    total.backward()
    return {n: p.grad for n, p in model.named_parameters()}


# truth
def truth():
    model, a, b = make()
    centre, total = torch.zeros(3), 0.0
    for x1, x2 in ((a, b), (b, a)):
        z1, z2 = model.enc(x1), model.enc(x2)
        t = z2.detach()
        centre = 0.9 * centre + 0.1 * t.mean(0)  # [centred]
        t = t - centre  # [centred]
        t, p = F.normalize(t, dim=1), F.normalize(model.pred(z1), dim=1)
        total = total - (p * t).sum(1).mean() + 0.1 * z2.pow(2).mean()
    ns = [n for n, _ in model.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(total, list(model.parameters()))))
