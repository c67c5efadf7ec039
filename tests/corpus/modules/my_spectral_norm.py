"""The second forward copies the new u into the buffer that the first forward's sigma still needs."""

# raises-backward
import torch
from torch import nn
import torch.nn.functional as F


class SNLinear(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o, bias=False)
        self.register_buffer("u", F.normalize(torch.randn(o), dim=0))

    def normalized(self):
        with torch.no_grad():
            v = F.normalize(self.weight.t() @ self.u, dim=0)
            self.u.copy_(F.normalize(self.weight @ v, dim=0))  # harm
        sigma = self.u @ (self.weight @ v)  # saves
        return self.weight / sigma

    def forward(self, x):
        return F.linear(x, self.normalized())


def make():
    torch.manual_seed(12)
    D = nn.Sequential(SNLinear(3, 6), nn.ReLU(), SNLinear(6, 1))
    return D, torch.randn(4, 3), torch.randn(4, 3) - 0.5


def run():
    D, real, fake = make()
    # hinge loss
    loss_real = F.relu(1 - D(real)).mean()
    loss_fake = F.relu(1 + D(fake)).mean()
    (loss_real + loss_fake).backward()
    return {"l0": D[0].weight.grad, "l2": D[2].weight.grad}
