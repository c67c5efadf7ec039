"""A key-value cache is preallocated; each step writes a row and attends to all rows so far."""

# bug: raises-backward, tensor=keys
# fixed: correct
# inference: correct
import torch
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, width, limit):
        super().__init__()
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.keys = torch.zeros(limit, width)
        self.values = torch.zeros(limit, width)

    def step(self, x, position):
        q, k, v = self.project(x).chunk(3, dim=-1)
        keys = torch.cat([self.keys[:position], k[None]])  # [fixed]
        values = torch.cat([self.values[:position], v[None]])  # [fixed]
        self.keys, self.values = keys, values  # [fixed]
        self.keys[position] = k  # [bug] harm
        self.values[position] = v  # [bug] harm
        self.keys[position] = k  # [inference]
        self.values[position] = v  # [inference]
        keys = self.keys[: position + 1]  # [bug inference]
        values = self.values[: position + 1]  # [bug inference]
        weights = torch.softmax(keys @ q, dim=0)  # saves
        return weights @ values  # saves


def make():
    torch.manual_seed(47)
    return CachedAttention(2, 4), torch.randn(3, 2)


def run():
    attention, sequence = make()
    outputs = []
    for position, x in enumerate(sequence):
        with torch.set_grad_enabled(position == 2):  # [inference]
            outputs.append(attention.step(x, position))  # [inference]
        outputs.append(attention.step(x, position))  # [bug fixed]
    loss = torch.stack(outputs).pow(2).sum()
    loss.backward()
    return {"project": attention.project.weight.grad}


# truth
def truth():
    attention, sequence = make()
    q, k, v = attention.project(sequence).chunk(3, dim=-1)
    k = torch.cat([k[:2].detach(), k[2:]])  # [inference]
    v = torch.cat([v[:2].detach(), v[2:]])  # [inference]
    outputs = [torch.softmax(k[: t + 1] @ q[t], 0) @ v[: t + 1] for t in range(3)]
    loss = outputs[-1].pow(2).sum()  # [inference]
    loss = torch.stack(outputs).pow(2).sum()  # [bug fixed]
    return {"project": torch.autograd.grad(loss, attention.project.weight)[0]}
