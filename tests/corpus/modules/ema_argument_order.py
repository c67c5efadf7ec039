"""A helper is called with student and teacher swapped and moves the student's weights in place before backward."""

# raises-backward
import copy
import torch
import torch.nn as nn


def blend(dst, src, beta):
    """dst <- beta * dst + (1 - beta) * src"""
    with torch.no_grad():
        for d, s in zip(dst.parameters(), src.parameters()):
            d.lerp_(s, 1 - beta)  # harm


class MeanTeacher:
    def __init__(self, student, beta=0.99):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.beta = beta

    def targets(self, x):
        self.refresh()
        with torch.no_grad():
            return self.teacher(x).softmax(-1)

    def refresh(self):
        blend(self.student, self.teacher, self.beta)


def make():
    torch.manual_seed(51)
    student = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
    return MeanTeacher(student), torch.randn(6, 4)


def run():
    mt, x = make()
    noisy = x + 0.1 * torch.randn_like(x)
    logp = mt.student(noisy).log_softmax(-1)  # saves
    loss = nn.functional.kl_div(logp, mt.targets(x), reduction="batchmean")
    loss.backward()
    return {n: p.grad for n, p in mt.student.named_parameters()}
