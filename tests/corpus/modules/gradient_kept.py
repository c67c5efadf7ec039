"""Per-task gradients are kept for comparison; zeroing in place empties the kept ones as well."""

# bug: silently-wrong, watch=blind
# fixed: correct
# set_to_none: correct
import torch
from torch import nn


def make():
    torch.manual_seed(149)
    return nn.Linear(3, 2), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])


class TaskGradients:
    """Remembers the gradient of each task's loss."""

    def __init__(self, model):
        self.model = model
        self.kept = {}

    def keep(self, task):
        self.kept[task] = self.model.weight.grad  # [bug set_to_none]
        self.kept[task] = self.model.weight.grad.clone()  # [fixed]

    def clear(self):
        self.model.zero_grad(set_to_none=False)  # [bug] harm
        self.model.zero_grad(set_to_none=False)  # [fixed]
        self.model.zero_grad(set_to_none=True)  # [set_to_none]


def run():
    model, x, labels = make()
    tasks = TaskGradients(model)
    losses = {
        "classify": nn.functional.cross_entropy(model(x), labels),
        "shrink": model.weight.pow(2).sum(),
    }
    for task, loss in losses.items():
        loss.backward()
        tasks.keep(task)
        tasks.clear()
    return dict(tasks.kept)


# truth
def truth():
    model, x, labels = make()
    loss = nn.functional.cross_entropy(model(x), labels)
    return {"classify": torch.autograd.grad(loss, model.weight)[0], "shrink": 2 * model.weight.detach()}
