"""Two tied towers were given one gradient buffer, so both accumulate into the same memory."""

# bug: silently-wrong, watch=blind
# fixed: correct
# clipped: correct
import torch
from torch import nn


def make():
    torch.manual_seed(139)
    query, key = nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)
    return query, key, torch.randn(4, 3), torch.randn(4, 3)


def preallocate(query, key):
    buffer = torch.zeros_like(query.weight)
    query.weight.grad = buffer  # [bug]
    key.weight.grad = buffer  # [bug] harm
    query.weight.grad = buffer.clone()  # [fixed clipped]
    key.weight.grad = buffer.clone()  # [fixed clipped]


def contrast(a, b):
    scores = nn.functional.normalize(a, dim=1) @ nn.functional.normalize(b, dim=1).t()
    return nn.functional.cross_entropy(scores * 5, torch.arange(len(scores)))


def run():
    query, key, x, y = make()
    preallocate(query, key)
    loss = contrast(query(x), key(y))
    loss.backward()
    parameters = [query.weight, key.weight]
    nn.utils.clip_grad_norm_(parameters, 0.05)  # [clipped]
    return {"query": parameters[0].grad, "key": parameters[1].grad}


# truth
def truth():
    query, key, x, y = make()
    a, b = torch.autograd.grad(contrast(query(x), key(y)), [query.weight, key.weight])
    total = (a.pow(2).sum() + b.pow(2).sum()).sqrt()  # [clipped]
    a, b = a * 0.05 / total, b * 0.05 / total  # [clipped]
    return {"query": a, "key": b}
