"""A heat equation is integrated on a grid; the conductivity is learnt."""

# bug: raises-backward, tensor=grid
# fixed: correct
# linear: correct
import torch


def make():
    torch.manual_seed(101)
    conductivity = torch.full((6,), 0.3, requires_grad=True)
    start = torch.linspace(0, 1, 6) ** 2
    target = torch.full((6,), 0.4)
    return conductivity, start, target


def laplacian(field):
    padded = torch.cat([field[:1], field, field[-1:]])
    return padded[2:] - 2 * padded[1:-1] + padded[:-2]


def simulate(conductivity, start, steps, dt=0.4):
    grid = start.clone()
    grid = start * conductivity  # [linear]
    for _ in range(steps):
        flux = conductivity * laplacian(grid)
        nonlinear = grid * grid  # [bug] saves
        nonlinear = grid * grid  # [fixed]
        nonlinear = 0.1 * grid  # [linear]
        grid += dt * (flux - 0.1 * nonlinear)  # [bug] harm
        grid += dt * (flux - 0.1 * nonlinear)  # [linear]
        grid = grid + dt * (flux - 0.1 * nonlinear)  # [fixed]
        grid[0].zero_()  # [bug] harm
        grid[0] = 0.0  # [linear]
        grid = torch.cat([torch.zeros(1), grid[1:]])  # [fixed]
    return grid


def run():
    conductivity, start, target = make()
    final = simulate(conductivity, start, steps=3)
    loss = (final - target).pow(2).sum()
    loss.backward()
    return {"conductivity": conductivity.grad}


# truth
def truth():
    conductivity, start, target = make()
    k = conductivity.detach().double().requires_grad_()
    u = start.double()
    u = u * k  # [linear]
    for _ in range(3):
        term = u * u  # [bug fixed]
        term = 0.1 * u  # [linear]
        u = u + 0.4 * (k * laplacian(u) - 0.1 * term)
        u = u * torch.tensor([0.0, 1, 1, 1, 1, 1]).double()
    return {"conductivity": torch.autograd.grad((u - target).pow(2).sum(), k)[0]}
