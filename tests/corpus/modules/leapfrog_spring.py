"""Velocities are stepped in place inside recorded sums; positions, which the force does save, never are."""

# correct, oracle=clone
import torch
from typing import NamedTuple


class World(NamedTuple):
    stiffness: torch.Tensor
    damping: torch.Tensor
    pos: torch.Tensor
    vel: torch.Tensor
    goal: torch.Tensor


def make():
    torch.manual_seed(63)
    k = torch.tensor([2.0, 1.5, 0.7], requires_grad=True)
    c = torch.tensor(0.2, requires_grad=True)
    return World(k, c, torch.randn(3), torch.zeros(3), torch.tensor([0.1, -0.2, 0.3]))


def force(w, pos):
    return -w.stiffness * pos - 0.3 * pos**3 - w.damping * pos.abs()


def simulate(w, dt=0.05, steps=12):
    pos = w.pos
    vel = w.vel + 0.5 * dt * force(w, pos)
    trajectory = torch.empty(steps, 3)
    for i in range(steps):
        pos = pos + dt * vel
        vel.add_(force(w, pos), alpha=dt)
        trajectory[i].copy_(pos.detach())
    return pos, trajectory


def run():
    world = make()
    final, traj = simulate(world)
    loss = (final - world.goal).square().sum()
    loss.backward()
    # only for plotting
    traj -= traj.mean(0)
    return {"k": world.stiffness.grad, "c": world.damping.grad}
