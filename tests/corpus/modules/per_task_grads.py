"""Each task's gradient is kept for a later projection, but what is kept is the buffer that the next task empties and fills."""

# bug: silently-wrong, watch=blind
# fixed: correct
from dataclasses import dataclass, field
from typing import Dict
import torch
import torch.nn as nn


@dataclass
class TaskGrads:
    model: nn.Module
    store: Dict[str, torch.Tensor] = field(default_factory=dict)

    def collect(self, name, loss):
        loss.backward(retain_graph=True)
        for n, p in self.model.named_parameters():
            self.store[f"{name}/{n}"] = p.grad  # [bug]
            self.store[f"{name}/{n}"] = p.grad.clone()  # [fixed]
        self._reset()

    def _reset(self):
        for p in self.model.parameters():
            p.grad.zero_()  # [bug] harm
            p.grad.zero_()  # [fixed]


def make():
    torch.manual_seed(31)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return TaskGrads(net), torch.randn(6, 3), torch.randn(6, 2)


def run():
    grads, x, y = make()
    out = grads.model(x)
    tasks = {
        "mse": lambda: (out[:, 0] - y[:, 0]).pow(2).mean(),
        "l1": lambda: (out[:, 1] - y[:, 1]).abs().mean() * 3,
    }
    for name, fn in tasks.items():
        grads.collect(name, fn())
    return dict(grads.store)


# truth
def truth():
    grads, x, y = make()
    named = dict(grads.model.named_parameters())
    out = grads.model(x)
    losses = {"mse": (out[:, 0] - y[:, 0]).square().mean(), "l1": 3 * (out[:, 1] - y[:, 1]).abs().mean()}
    return {
        f"{task}/{name}": gradient
        for task, loss in losses.items()
        for name, gradient in zip(named, torch.autograd.grad(loss, list(named.values()), retain_graph=True))
    }
