"""The clone made outside inference mode is a normal tensor and is clamped before it is used."""

# correct, oracle=clone
import torch
import torch.nn as nn


def make():
    torch.manual_seed(23)
    teacher = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 4))
    student = nn.Linear(6, 4)
    attention = nn.Parameter(torch.ones(4))
    return teacher, student, attention, torch.randn(11, 6)


@torch.inference_mode()
def teach(teacher, x):
    t = teacher(x)
    t.sub_(t.mean(-1, keepdim=True))
    return t


def run():
    teacher, student, attention, x = make()
    target = teach(teacher, x).clone()  # clone *outside* inference mode
    target.clamp_(-1, 1)
    weighted = target * attention
    loss = (student(x) * weighted).sum(-1).sigmoid().neg().mean()
    loss = loss + 0.1 * (student(x) - weighted).pow(2).mean()
    loss.backward()
    return {"student": student.weight.grad, "attention": attention.grad}
