"""A teacher's output is cloned inside inference mode, so it stays an inference tensor that backward cannot save."""

# raises-forward
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
    return t.clone()  # cloned, so it should be fine?


def run():
    teacher, student, attention, x = make()
    target = teach(teacher, x)
    gap = student(x) - target
    weighted = target * attention
    loss = gap.pow(2).mean() + weighted.sigmoid().mean()
    loss.backward()
    return {"student": student.weight.grad, "attention": attention.grad}
