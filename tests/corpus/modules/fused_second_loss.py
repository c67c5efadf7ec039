"""Switching to fused AdamW made the regulariser's gradient drift (no error)."""

# bug: silently-wrong, tensor=weight
# unfused: raises-backward, tensor=weight
# fixed: correct
# recomputed: correct
import torch
from torch import nn


class Task:
    def __init__(self):
        torch.manual_seed(54)
        self.model = nn.Sequential(nn.Linear(3, 3), nn.CELU(), nn.Linear(3, 1))
        self.x, self.y = torch.randn(6, 3), torch.randn(6, 1)

    def data_loss(self):
        return (self.model(self.x) - self.y).pow(2).mean()

    def orthogonality(self):
        w = self.model[0].weight
        return (w @ w.t() - torch.eye(3)).pow(2).sum()  # saves


def make():
    task = Task()
    fused = True  # [bug]
    fused = False  # [unfused fixed recomputed]
    return task, torch.optim.AdamW(task.model.parameters(), lr=0.05, fused=fused)


def run():
    task, opt = make()
    fit, reg = task.data_loss(), task.orthogonality()
    fit.backward()
    before = reg  # [bug unfused]
    opt.step()  # [bug unfused] harm
    opt.step()  # [recomputed]
    opt.zero_grad()
    before = task.orthogonality()  # [recomputed fixed]
    before.backward()
    return {"w": task.model[0].weight.grad}


# truth
def truth():
    task, opt = make()
    task.data_loss().backward()  # [recomputed]
    opt.step()  # [recomputed]
    w = task.model[0].weight.detach()
    return {"w": 4 * (w @ w.t() - torch.eye(3)) @ w}
