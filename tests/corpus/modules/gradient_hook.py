"""A hook on a hidden tensor rescales its gradient in place; the same gradient goes to another branch."""

# bug: silently-wrong, watch=blind
# fixed: correct
# returned: correct
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(2, 3, bias=False)
        self.right = nn.Linear(2, 3, bias=False)
        self.norms = []

    def watch(self, grad):
        self.norms.append(grad.norm().item())
        grad.div_(grad.norm() + 1e-6)  # [bug] harm
        scaled = grad.clone()  # [fixed]
        scaled.div_(grad.norm() + 1e-6)  # [fixed]
        return grad / (grad.norm() + 1e-6)  # [returned]

    def forward(self, x):
        left = self.left(x)
        right = self.right(x)
        right.register_hook(self.watch)
        return left + right


def make():
    torch.manual_seed(137)
    return Heads(), torch.randn(5, 2), torch.randn(5, 3)


def run():
    net, x, y = make()
    difference = net(x) - y
    loss = (difference**2).sum()
    loss.backward()
    return {"left": net.left.weight.grad, "right": net.right.weight.grad}


# truth
def truth():
    net, x, y = make()
    grad = 2 * (net(x) - y).detach()
    right = grad / (grad.norm() + 1e-6)  # [returned]
    right = grad  # [bug fixed]
    return {"left": grad.t() @ x, "right": right.t() @ x}
