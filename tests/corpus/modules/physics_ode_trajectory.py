"""A Runge-Kutta solver writes its trajectory into a preallocated tensor and reads the last state back as a view."""

# bug: raises-backward, tensor=trajectory
# fixed: correct
# local: correct
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))

    def forward(self, y):
        return self.net(y**3)  # saves


def midpoint(field, y, dt):
    half = y + 0.5 * dt * field(y)
    return y + dt * field(half)


def solve(field, start, steps, dt=0.3):
    trajectory = torch.zeros(steps + 1, 2)
    trajectory[0] = start
    state = start  # [local]
    states = [start]  # [fixed]
    for n in range(steps):
        trajectory[n + 1] = midpoint(field, trajectory[n], dt)  # [bug] harm
        states.append(midpoint(field, states[n], dt))  # [fixed]
        state = midpoint(field, state, dt)  # [local]
        trajectory[n + 1] = state  # [local]
    trajectory = torch.stack(states)  # [fixed]
    return trajectory


def make():
    torch.manual_seed(107)
    return Field(), torch.tensor([1.0, -0.5], requires_grad=True)


def run():
    field, start = make()
    trajectory = solve(field, start, steps=3)
    loss = (trajectory[-1] - 0.5).pow(2).sum() + trajectory.abs().mean()
    loss.backward()
    return {"start": start.grad, "out": field.net[2].weight.grad}


# truth
def truth():
    field, start = make()
    states = [start]
    for _ in range(3):
        y = states[-1]
        half = y + 0.15 * field.net(y * y * y)
        states.append(y + 0.3 * field.net(half * half * half))
    loss = (states[-1] - 0.5).pow(2).sum() + torch.stack(states).abs().mean()
    first, second = torch.autograd.grad(loss, [start, field.net[2].weight])
    return {"start": first, "out": second}
