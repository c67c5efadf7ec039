"""A callback lowers the temperature between a checkpointed forward and its recomputation."""

# silently-wrong, watch=blind
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class SoftAssign(nn.Module):
    """soft clustering with an annealed temperature"""

    def __init__(self, dim, k):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(k, dim))
        self.register_buffer("tau", torch.tensor(2.0))

    def _assign(self, x):
        d = torch.cdist(x, self.centers).pow(2)
        return torch.softmax(-d / self.tau, dim=-1)

    def forward(self, x):
        return checkpoint(self._assign, x, use_reentrant=False)


class Annealer:
    def __init__(self, module, rate):
        self.module, self.rate = module, rate

    def on_loss_computed(self, loss):
        self.module.tau.mul_(self.rate)  # harm


def make():
    torch.manual_seed(8)
    m = SoftAssign(3, 4)
    return m, [Annealer(m, 0.5)], torch.randn(6, 3), torch.randn(6, 4)


def run():
    module, callbacks, x, cost = make()
    loss = (module(x) * cost).sum()
    for cb in callbacks:
        cb.on_loss_computed(loss)
    loss.backward()
    return {"centers": module.centers.grad}


# truth
def truth():
    module, _, x, cost = make()
    loss = (torch.softmax(-torch.cdist(x, module.centers).pow(2) / 2.0, dim=-1) * cost).sum()
    return {"centers": torch.autograd.grad(loss, module.centers)[0]}
