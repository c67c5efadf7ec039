"""A fused optimizer writes policy and value weights, its counter unmoved, before the second loss's backward."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn
from torch.optim import SGD


def update(opt, loss, keep):
    opt.zero_grad()
    loss.backward(retain_graph=keep)
    opt.step()  # harm


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        self.policy = nn.Linear(6, 3)
        self.value = nn.Linear(3, 1)

    def forward(self, s):
        z = torch.tanh(self.trunk(s))
        logits = self.policy(z)  # saves
        return logits, self.value(logits)


def make():
    torch.manual_seed(9)
    m = Heads()
    opt_a = SGD(list(m.policy.parameters()) + list(m.value.parameters()), lr=0.5, fused=True)
    opt_b = SGD(m.trunk.parameters(), lr=0.5, fused=True)
    return m, opt_a, opt_b, torch.randn(8, 4), torch.randint(0, 3, (8,))


def run():
    m, opt_a, opt_b, states, actions = make()
    logits, v = m(states)
    policy_loss = nn.functional.cross_entropy(logits, actions)
    value_loss = (v - 1.0).pow(2).mean()
    update(opt_a, policy_loss, keep=True)
    update(opt_b, value_loss, keep=False)
    return {"trunk": m.trunk.weight.grad}
