"""Gradient surgery for two tasks: gradients are collected by grad, projected in place and put into .grad; right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Shared(nn.Module):
    def __init__(self, inside=5, width=10, tasks=2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inside, width), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(tasks))

    def forward(self, x):
        h = self.trunk(x)
        return [head(h).squeeze(1) for head in self.heads]


class Surgery:
    """Takes from each task's gradient what goes against another's."""

    def __init__(self, parameters, optimizer):
        self.parameters, self.optimizer = list(parameters), optimizer

    def flat(self, loss):
        grads = torch.autograd.grad(loss, self.parameters, retain_graph=True, allow_unused=True)
        parts = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, grads)]
        return torch.cat([part.reshape(-1) for part in parts])

    def step(self, losses):
        flats = [self.flat(loss) for loss in losses]
        originals = [flat.clone() for flat in flats]
        for i, flat in enumerate(flats):
            for j, other in enumerate(originals):
                against = flat @ other
                if i != j and against < 0:
                    flat -= against / other.norm().pow(2).clamp_(min=1e-12) * other
        total = torch.stack(flats).sum(0)
        place = 0
        for p in self.parameters:
            piece = total[place : place + p.numel()].view_as(p)
            p.grad = piece.clone() if p.grad is None else p.grad.copy_(piece)
            place += p.numel()
        self.optimizer.step()


def tasks(generator, count=10):
    x = torch.randn(count, 5, generator=generator)
    return x, [x[:, 0] - x[:, 1], x[:, 1] * x[:, 2]]


def weights_of(losses, temperature=1.0):
    """Tasks that are behind count more; a choice, so no gradient flows through it."""
    values = torch.stack([loss.detach() for loss in losses])
    values.div_(values.mean()).div_(temperature)
    return values.softmax(0).mul_(len(losses))


def main():
    torch.manual_seed(110)
    generator = torch.Generator().manual_seed(110)
    model = Shared()
    surgery = Surgery(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.05))
    for step in range(3):
        x, goals = tasks(generator)
        losses = [F.mse_loss(out, goal) for out, goal in zip(model(x), goals)]
        weights = weights_of(losses)
        surgery.step([weight * loss for weight, loss in zip(weights, losses)])
        print(f"step {step}:", *(f"{loss.item():.4f}" for loss in losses))


if __name__ == "__main__":
    main()
