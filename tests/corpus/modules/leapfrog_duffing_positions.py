"""Positions are stepped in place although the cubic force of the same step has saved them."""

# raises-backward
import torch
from functools import partial

# learn stiffness + damping of a Duffing oscillator from a trajectory


def duffing(pos, vel, k, c):
    return -k[0] * pos - k[1] * pos**3 - c * vel  # saves


def leapfrog(force, pos, vel, dt, n):
    for _ in range(n):
        vel = vel + dt * force(pos, vel)
        pos += dt * vel  # harm
        yield pos.clone()


def make():
    torch.manual_seed(0)
    k = torch.tensor([1.0, 0.5], requires_grad=True)
    c = torch.tensor(0.1, requires_grad=True)
    pos0 = torch.tensor([1.0, -0.5, 0.25])
    obs = torch.stack([torch.cos(torch.tensor(0.1 * i)) * pos0 for i in range(1, 9)])
    return k, c, pos0, obs


def run():
    k, c, pos0, obs = make()
    traj = torch.stack(list(leapfrog(partial(duffing, k=k, c=c), pos0.clone(), torch.zeros(3), 0.1, len(obs))))
    loss = (traj - obs).square().sum()
    loss.backward()
    print("k.grad", k.grad)
    return {"k": k.grad, "c": c.grad}
