"""The EMA writes a deep copy's memory, which the student's graph does not hold."""

# correct, oracle=clone
import copy

import torch
import torch.nn.functional as F
from torch import nn


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.module = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        shadow = list(self.module.parameters())
        torch._foreach_lerp_(shadow, list(model.parameters()), 1 - self.decay)
        for b_ema, b in zip(self.module.buffers(), model.buffers()):
            b_ema.copy_(b)


def make():
    torch.manual_seed(77)
    student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    return student, torch.randn(9, 4), torch.randint(0, 3, (9,))


def run():
    student, x, y = make()
    ema = ModelEMA(student)
    opt = torch.optim.RMSprop(student.parameters(), lr=1e-3)
    for step in range(3):
        with torch.no_grad():
            soft = ema.module(x).softmax(-1)
        logits = student(x)
        loss = F.cross_entropy(logits, y) + F.kl_div(logits.log_softmax(-1), soft, reduction="batchmean")
        ema.update(student)  # yes, before backward. my reviewer panicked
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {f"p{i}": p.grad for i, p in enumerate(student.parameters()) if i != 1}
