"""Weights are normalised through .data between forward and backward."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# swap: silently-wrong, tensor=weight
import torch
from torch import nn


class Cosine(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, inputs))

    def forward(self, x):
        return x.mm(self.weight.abs().t()) + (self.weight * self.weight).sum()  # saves


def normalise(module):
    norm = module.weight.data.norm(dim=1, keepdim=True)
    module.weight.data.div_(norm)  # [bug] harm
    module.weight.data = module.weight.data / norm  # [swap] harm
    module.weight.data.div_(norm)  # [fixed]


def make():
    torch.manual_seed(73)
    return Cosine(3, 2), nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])


def run():
    head, body, x, labels = make()
    normalise(head)  # [fixed]
    features = body(x)
    logits = head(features)
    loss = nn.functional.cross_entropy(logits, labels) + 0.1 * logits.mean()
    normalise(head)  # [bug swap]
    head.zero_grad()
    loss.backward()
    return {"head": head.weight.grad, "body": body.weight.grad}


# truth
def truth():
    head, body, x, labels = make()
    w = head.weight.detach().clone()
    w = w / w.norm(dim=1, keepdim=True)  # [fixed]
    w.requires_grad_()
    logits = body(x) @ w.abs().t() + w.pow(2).sum()
    loss = nn.functional.cross_entropy(logits, labels) + 0.1 * logits.mean()
    first, second = torch.autograd.grad(loss, [w, body.weight])
    return {"head": first, "body": second}
