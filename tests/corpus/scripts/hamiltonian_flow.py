"""A Hamiltonian network: leapfrog positions are updated in place where only sums were made of them; right."""

# correct
import torch
from torch import nn


class Hamiltonian(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.potential = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_mass = nn.Parameter(torch.zeros(()))

    def force(self, q):
        with torch.enable_grad():
            q = q if q.requires_grad else q.requires_grad_(True)
            (slope,) = torch.autograd.grad(self.potential(q).sum(), q, create_graph=True)
        return -slope


class Leapfrog:
    def __init__(self, system, dt):
        self.system, self.dt = system, dt

    def run(self, q, p, steps):
        path = torch.empty(steps, *q.shape)
        p = p + self.dt / 2 * self.system.force(q)
        for step in range(steps):
            q = q + self.dt * p * torch.exp(-self.system.log_mass)
            change = self.system.force(q)
            change *= self.dt
            p = p + change
            path[step] = q
        p = p - self.dt / 2 * self.system.force(q)
        return path, p


def oscillator(count, steps, dt, generator):
    q = torch.randn(count, 1, generator=generator)
    p = torch.randn(count, 1, generator=generator)
    time = dt * torch.arange(1, steps + 1).view(-1, 1, 1)
    path = q * torch.cos(time) + p * torch.sin(time)
    path += 0.01 * torch.randn(path.shape, generator=generator)
    return q, p, path


class History:
    def __init__(self):
        self.values = torch.zeros(0)

    def add(self, value):
        self.values = torch.cat([self.values, value.detach().reshape(1)])

    def smooth(self):
        smoothed = self.values.clone()
        for place in range(1, len(smoothed)):
            smoothed[place].mul_(0.5).add_(0.5 * smoothed[place - 1])
        return smoothed[-1].item()


def main():
    torch.manual_seed(114)
    generator = torch.Generator().manual_seed(114)
    system, history = Hamiltonian(), History()
    optimizer = torch.optim.Adam(system.parameters(), lr=1e-2)
    for step in range(3):
        q, p, goal = oscillator(5, 4, 0.2, generator)
        path, _ = Leapfrog(system, 0.2).run(q, p, 4)
        loss = (path - goal).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.add(loss)
        print(f"step {step}: {loss.item():.5f} smooth {history.smooth():.5f}")


if __name__ == "__main__":
    main()
