"""Mean teacher: the student's own weights are overwritten instead of the teacher's, or the teacher is moved too early."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# early: correct
import copy

import torch
from torch import nn


def make():
    torch.manual_seed(67)
    student = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    teacher = copy.deepcopy(student)
    for parameter in teacher.parameters():
        parameter.data.add_(0.1)
        parameter.requires_grad_(False)
    return student, teacher, torch.randn(5, 3)


def update(into, source, momentum):
    for old, new in zip(into.parameters(), source.parameters()):
        old.data.mul_(momentum).add_(new.data, alpha=1 - momentum)  # [bug] harm
        old.data.mul_(momentum).add_(new.data, alpha=1 - momentum)  # [fixed early]


def run():
    student, teacher, x = make()
    prediction = student(x)  # saves
    with torch.no_grad():
        goal = teacher(x)
    loss = (prediction - goal).pow(2).mean()
    update(student, teacher, 0.9)  # [bug]
    update(teacher, student, 0.9)  # [early]
    loss.backward()
    update(teacher, student, 0.9)  # [fixed]
    return {name: parameter.grad for name, parameter in student.named_parameters()}


# truth
def truth():
    student, teacher, x = make()
    goal = teacher(x)
    w, b, v, c = student.parameters()
    prediction = (x @ w.t() + b).tanh() @ v.t() + c
    gradients = torch.autograd.grad((prediction - goal).pow(2).mean(), [w, b, v, c])
    return dict(zip([name for name, _ in student.named_parameters()], gradients))
