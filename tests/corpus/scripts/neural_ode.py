"""A neural differential equation solved by hand: Runge-Kutta steps are added in place to the state."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class Dynamics(nn.Module):
    """dy/dt = f(t, y)."""

    def __init__(self, size=2, width=10):
        super().__init__()
        self.inner = nn.Linear(size + 1, width)
        self.outer = nn.Linear(width, size)
        self.calls = 0

    def forward(self, t, y):
        self.calls += 1
        time = t.expand(len(y), 1)
        drive = self.outer(torch.tanh(self.inner(torch.cat([y, time], dim=1))))
        return drive - 0.1 * y * y.norm(dim=1, keepdim=True)  # saves


class RungeKutta4:
    def __init__(self, field, steps):
        self.field, self.steps = field, steps

    def solve(self, y, t0, t1):
        h = (t1 - t0) / self.steps
        t = torch.tensor(float(t0))
        path = [y]
        for _ in range(self.steps):
            k1 = self.field(t, y)
            k2 = self.field(t + h / 2, y + h / 2 * k1)
            k3 = self.field(t + h / 2, y + h / 2 * k2)
            k4 = self.field(t + h, y + h * k3)
            y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)  # [bug] harm
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)  # [fixed]
            t = t + h
            path.append(y)
        return path


def spiral(points, length):
    start = torch.randn(points, 2)
    a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    ends = start @ torch.linalg.matrix_exp(a * length)
    return start, ends


def main():
    torch.manual_seed(41)
    field = Dynamics()
    encoder = nn.Linear(2, 2)
    solver = RungeKutta4(field, steps=3)
    parameters = [*encoder.parameters(), *field.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    start, ends = spiral(6, 0.5)
    for iteration in range(3):
        optimizer.zero_grad()
        path = solver.solve(encoder(start), 0.0, 0.5)
        loss = (path[-1] - ends).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"iteration {iteration}: loss {loss.item():.5f}, {field.calls} evaluations")


if __name__ == "__main__":
    main()
