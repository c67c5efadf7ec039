"""Tree encoder: child states are summed into the first child's state."""

# bug: raises-backward
# fixed: correct
# linear: correct
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Node:
    value: float
    children: list = field(default_factory=list)


class TreeEncoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.leaf = nn.Linear(1, d)
        self.merge = nn.Linear(d, d)

    def encode(self, node):
        own = self.leaf(torch.tensor([node.value]))
        if not node.children:
            return torch.tanh(own)  # [bug] saves
            return torch.tanh(own)  # [fixed]
            return own  # [linear]
        total = self.encode(node.children[0])
        for child in node.children[1:]:
            total += self.encode(child)  # [bug] harm
            total += self.encode(child)  # [linear]
            total = total + self.encode(child)  # [fixed]
        return torch.tanh(self.merge(total) + own)


def make():
    torch.manual_seed(30)
    tree = Node(0.1, [Node(0.5), Node(-0.3, [Node(1.0), Node(2.0)]), Node(0.7)])
    return TreeEncoder(3), tree


def run():
    enc, tree = make()
    code = enc.encode(tree)
    (code**2).sum().backward()
    return {n: p.grad for n, p in enc.named_parameters()}


# truth
def truth():
    enc, tree = make()

    def go(n):
        own = n.value * enc.leaf.weight[:, 0] + enc.leaf.bias
        if not n.children:
            return own  # [linear]
            return own.tanh()
        return torch.tanh(enc.merge(torch.stack([go(c) for c in n.children]).sum(0)) + own)

    ns = [n for n, _ in enc.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(go(tree).pow(2).sum(), list(enc.parameters()))))
