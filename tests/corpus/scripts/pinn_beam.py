"""A physics-informed network: the boundary values are written into the output that tanh has saved."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class Field(nn.Module):
    """u(x) for 0 <= x <= 1."""

    def __init__(self, width=10):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return torch.tanh(self.layers[-1](x))  # saves


def derivative(y, x):
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    return slope


def load(x):
    return torch.sin(torch.pi * x)


class Problem:
    """-u'' = load, u = 0 at both ends."""

    def __init__(self, points):
        self.x = torch.linspace(0, 1, points).unsqueeze(1).requires_grad_()

    def solution(self, field):
        u = field(self.x)
        u = u.clone()  # [fixed]
        u[0] = 0.0  # [bug] harm
        u[-1] = 0.0  # [bug] harm
        u[0] = 0.0  # [fixed]
        u[-1] = 0.0  # [fixed]
        return u

    def loss(self, field):
        u = self.solution(field)
        curvature = derivative(derivative(u, self.x), self.x)
        residual = (curvature + load(self.x.detach()))[1:-1]
        return residual.pow(2).mean() + u.pow(2).mean() * 1e-3


def train(steps=3, lr=5e-3):
    torch.manual_seed(11)
    field, problem = Field(), Problem(points=9)
    optimizer = torch.optim.Adam(field.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for step in range(steps):
        optimizer.zero_grad()
        loss = problem.loss(field)
        loss.backward()
        nn.utils.clip_grad_norm_(field.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(f"{step:3d}  {loss.item():.6f}  lr {scheduler.get_last_lr()[0]:.5f}")
    return field


if __name__ == "__main__":
    train()
