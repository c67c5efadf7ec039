"""constrained optimisation: multiplier update"""

# bug: raises-backward, tensor=lam
# fixed: correct
# numpy: silently-wrong, tensor=lam
# float: correct
import torch
from torch import nn


def constraint(net):
    return torch.stack([p.pow(2).sum() for p in net.parameters()]) - 1.0


class Lagrangian:
    def __init__(self, net, n):
        self.net = net
        self.lam = torch.full((n,), 0.1)

    def loss(self, x):
        c = constraint(self.net)
        self.violation = c.detach()
        penalty = (self.lam * c).sum()  # [bug numpy] saves
        penalty = (self.lam * c).sum()  # [fixed]
        penalty = sum(float(l) * ci for l, ci in zip(self.lam, c))  # [float]
        return self.net(x).mean() + penalty

    def ascend(self, rate):
        self.lam.add_(rate * self.violation).clamp_(min=0)  # [bug] harm
        view = self.lam.numpy()  # [numpy]
        view += rate * self.violation.numpy()  # [numpy] harm
        view[view < -9] = 0  # [numpy]
        self.lam.add_(rate * self.violation).clamp_(min=0)  # [fixed float]


def make():
    torch.manual_seed(40)
    net = nn.Linear(3, 2)
    return Lagrangian(net, 2), torch.randn(4, 3)


def run():
    problem, x = make()
    loss = problem.loss(x)
    problem.ascend(0.5)  # [bug numpy float]
    loss.backward()
    problem.ascend(0.5)  # [fixed]
    return {"weight": problem.net.weight.grad, "bias": problem.net.bias.grad}


# truth
def truth():
    problem, x = make()
    w, b = problem.net.weight.detach(), problem.net.bias.detach()
    return {"weight": x.mean(0).expand(2, 3) / 2 + 0.2 * w, "bias": torch.full((2,), 0.5) + 0.2 * b}
