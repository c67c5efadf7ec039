"""Differentiable n-body: forces are scattered into a shared accumulator."""

# bug: raises-backward, tensor=acc
# fixed: correct
# reset: correct
import torch


class World:
    def __init__(self, pos, vel, mass):
        self.pos, self.vel, self.mass = pos, vel, mass
        self.acc = torch.zeros_like(pos)
        n = len(pos)
        self.i, self.j = torch.triu_indices(n, n, 1)

    def forces(self):
        r = self.pos[self.j] - self.pos[self.i]
        f = r / (r.pow(2).sum(-1, keepdim=True) + 0.1) ** 1.5
        self.acc = torch.zeros_like(self.pos)  # [fixed reset]
        self.acc.index_add_(0, self.i, f * self.mass[self.j, None])  # [fixed reset]
        self.acc.index_add_(0, self.j, -f * self.mass[self.i, None])  # [fixed reset]
        self.acc.detach_().zero_()  # [bug] harm
        self.acc.index_add_(0, self.i, f * self.mass[self.j, None])  # [bug] harm
        self.acc.index_add_(0, self.j, -f * self.mass[self.i, None])  # [bug] harm
        return self.acc

    def simulate(self, dt, steps):
        for _ in range(steps):
            a = self.forces()
            drag = a.abs() * a * 0.1  # [bug] saves
            drag = a.abs() * a * 0.1  # [fixed reset]
            self.vel = self.vel + dt * (a - drag)
            self.pos = self.pos + dt * self.vel
            yield self.pos


def make():
    gen = torch.Generator().manual_seed(46)
    mass = torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
    return World(torch.randn(3, 2, generator=gen), torch.zeros(3, 2), mass), mass


def run():
    world, mass = make()
    loss = 0.0
    for step, pos in enumerate(world.simulate(0.1, 3)):
        loss = loss + (step + 1) * pos.norm(dim=1).sum()
    loss.backward()
    return {"mass": mass.grad}


# truth
def truth():
    world, mass = make()
    pos, vel, loss = world.pos, world.vel, 0.0
    for step in range(3):
        r = pos[None] - pos[:, None]
        f = r / (r.pow(2).sum(-1, keepdim=True) + 0.1) ** 1.5
        a = (f * mass[None, :, None]).sum(1)
        vel = vel + 0.1 * (a - 0.1 * a.abs() * a)
        pos = pos + 0.1 * vel
        loss = loss + (step + 1) * pos.norm(dim=1).sum()
    return {"mass": torch.autograd.grad(loss, mass)[0]}
