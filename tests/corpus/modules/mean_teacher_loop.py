"""The teacher's parameters alone move in place under no_grad, after backward and step."""

# correct, oracle=clone
import copy
import torch
from torch import nn


class MeanTeacher:
    def __init__(self, student, decay=0.9):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self):
        t = list(self.teacher.parameters())
        s = list(self.student.parameters())
        torch._foreach_lerp_(t, s, 1 - self.decay)
        for tb, sb in zip(self.teacher.buffers(), self.student.buffers()):
            tb.copy_(sb)


def make():
    torch.manual_seed(57)
    student = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))
    return MeanTeacher(student), torch.randn(3, 8, 4), torch.randn(3, 8, 4) * 0.1


def run():
    mt, batches, jitter = make()
    opt = torch.optim.SGD(mt.student.parameters(), lr=0.1, momentum=0.9)
    for x, eps in zip(batches, jitter):
        with torch.no_grad():
            soft = mt.teacher(x).softmax(-1)
        logp = mt.student(x + eps).log_softmax(-1)
        loss = -(soft * logp).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        mt.update()
    return {n: p.grad for n, p in mt.student.named_parameters()}
