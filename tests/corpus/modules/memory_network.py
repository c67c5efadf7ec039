"""Neural Turing machine: erase/add on the memory matrix."""

# bug: raises-backward, tensor=memory
# fixed: correct
# register: silently-wrong, watch=blind
import torch
from torch import nn


class NTM(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.controller = nn.Linear(width, 3 * width)
        self.slots, self.width = slots, width

    def address(self, memory, key):
        return torch.softmax(memory @ key, dim=0)  # saves

    def write(self, memory, w, erase, add):
        memory.mul_(1 - torch.outer(w, erase))  # [bug] harm
        memory.add_(torch.outer(w, add))  # [bug] harm
        memory.data.copy_(memory * (1 - torch.outer(w, erase)) + torch.outer(w, add))  # [register] harm
        memory = memory * (1 - torch.outer(w, erase)) + torch.outer(w, add)  # [fixed]
        return memory

    def forward(self, xs):
        memory = torch.full((self.slots, self.width), 0.1)
        memory += torch.linspace(0, 0.2, self.slots)[:, None]
        reads = []
        for x in xs:
            key, erase, add = self.controller(x).split(self.width)
            w = self.address(memory, key)
            reads.append(w @ memory)
            memory = self.write(memory, w, erase.sigmoid(), add.tanh())
        return torch.stack(reads)


def make():
    torch.manual_seed(28)
    return NTM(3, 2), torch.randn(3, 2)


def run():
    ntm, xs = make()
    loss = (ntm(xs) - 0.3).pow(2).sum()
    loss.backward()
    return {n: p.grad for n, p in ntm.named_parameters()}


# truth
def truth():
    ntm, xs = make()
    m, total = 0.1 + torch.linspace(0, 0.2, 3)[:, None].expand(3, 2), 0.0
    for x in xs:
        k, e, a = ntm.controller(x).split(2)
        w = torch.softmax(m @ k, 0)
        total = total + (w @ m - 0.3).pow(2).sum()
        m = m * (1 - w[:, None] * e.sigmoid()) + w[:, None] * a.tanh()
    ns = [n for n, _ in ntm.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(total, list(ntm.parameters()))))
