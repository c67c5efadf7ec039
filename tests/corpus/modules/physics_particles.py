"""Particles under a spring: velocities and positions are stepped in place, trajectories go into a buffer."""

# bug: silently-wrong, tensor=position
# fixed: correct
# buffer: correct
import torch


class System:
    def __init__(self, stiffness, damping):
        self.stiffness, self.damping = stiffness, damping

    def force(self, position, velocity):
        return -self.stiffness * position.sin() - self.damping * velocity  # saves


def make():
    torch.manual_seed(103)
    stiffness = torch.tensor([1.5, 0.7], requires_grad=True)
    damping = torch.tensor(0.1, requires_grad=True)
    return System(stiffness, damping), torch.tensor([0.3, -0.5]), torch.zeros(2)


def integrate(system, position, velocity, steps, dt=0.2):
    position, velocity = position.clone(), velocity.clone()
    path = torch.empty(steps, 2)
    for step in range(steps):
        velocity = velocity + dt * system.force(position, velocity)
        position.data.add_(velocity.detach(), alpha=dt)  # [bug] harm
        position = position + dt * velocity  # [fixed buffer]
        path[step] = position.detach() + velocity  # [bug]
        path[step] = position + velocity  # [fixed]
        path[step].copy_(position + velocity)  # [buffer]
    return path


def run():
    system, position, velocity = make()
    position.requires_grad_()
    path = integrate(system, position, velocity, steps=3)
    loss = path.pow(2).mean()
    loss.backward()
    return {"stiffness": system.stiffness.grad, "damping": system.damping.grad}


# truth
def truth():
    system, position, velocity = make()
    total = 0.0
    for _ in range(3):
        velocity = velocity + 0.2 * (-system.stiffness * position.sin() - system.damping * velocity)
        position = position + 0.2 * velocity
        total = total + (position + velocity).pow(2).sum()
    stiffness, damping = torch.autograd.grad(total / 6, [system.stiffness, system.damping])
    return {"stiffness": stiffness, "damping": damping}
