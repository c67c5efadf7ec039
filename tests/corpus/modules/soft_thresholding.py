"""ISTA unrolled: shrinkage in place on the code, thresholds learnt."""

# bug: raises-backward, tensor=z
# fixed: correct
# relu: correct
import torch
from torch import nn


class LISTA(nn.Module):
    def __init__(self, dictionary, depth):
        super().__init__()
        self.register_buffer("D", dictionary)
        self.theta = nn.Parameter(torch.full((depth,), 0.05))
        self.step = nn.Parameter(torch.tensor(0.2))

    def shrink(self, z, theta):
        sign = torch.sign(z)  # [bug fixed]
        z = z.abs()  # [bug fixed]
        over = z > theta  # [bug fixed]
        kept = (z * z).sum()  # [bug] saves
        kept = (z * z).sum()  # [fixed]
        z[~over] = 0  # [bug] harm
        z = torch.where(over, z - theta, torch.zeros(()))  # [fixed]
        z = sign * z + 0 * kept  # [bug fixed]
        z = z - theta  # [relu]
        z.relu_()  # [relu]
        return z

    def forward(self, y):
        z = y.new_zeros(self.D.shape[1])
        for theta in self.theta:
            z = self.shrink(z + self.step * self.D.t() @ (y - self.D @ z), theta)
        return z


def make():
    torch.manual_seed(56)
    D = torch.randn(3, 4)
    return LISTA(D, 3), torch.randn(3)


def run():
    model, y = make()
    code = model(y)
    loss = (model.D @ code - y).pow(2).sum() + 0.1 * code.abs().sum()
    loss.backward()
    return {"theta": model.theta.grad, "step": model.step.grad}


# truth
def truth():
    model, y = make()
    z = torch.zeros(4)
    for theta in model.theta:
        z = z + model.step * model.D.t() @ (y - model.D @ z)
        z = z.sign() * (z.abs() - theta).relu()  # [fixed bug]
        z = (z - theta).relu()  # [relu]
    loss = (model.D @ z - y).pow(2).sum() + 0.1 * z.abs().sum()
    a, b = torch.autograd.grad(loss, [model.theta, model.step])
    return {"theta": a, "step": b}
