"""A moving average that aliases the live weights shrinks them before backward, behind the version counter."""

# silently-wrong, oracle=clone
import torch
import torch.nn.functional as F
from torch import nn


class WeightAverager:
    """Keeps a moving average of the weights for evaluation."""

    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.avg = {name: p.data for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.avg[name].mul_(self.decay)  # harm
            self.avg[name].add_(p.data, alpha=1 - self.decay)  # harm


def make():
    torch.manual_seed(77)
    student = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    return student, torch.randn(9, 4), torch.randint(0, 3, (9,))


def run():
    student, x, y = make()
    averager = WeightAverager(student, decay=0.5)
    opt = torch.optim.SGD(student.parameters(), lr=1e-2)
    loss = F.cross_entropy(student(x), y)  # saves
    averager.update(student)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return {"l0": student[0].weight.grad, "l2": student[2].weight.grad, "l4": student[4].weight.grad}
