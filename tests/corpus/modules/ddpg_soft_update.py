"""DDPG agent: polyak() is called with the arguments in the wrong order / at the wrong time."""

# bug: raises-backward, tensor=weight
# fixed: correct
# target_first: correct
import copy
from itertools import chain

import torch
from torch import nn


@torch.no_grad()
def polyak(dst, src, tau):
    for a, b in zip(dst.parameters(), src.parameters()):
        a.lerp_(b, tau)  # [bug] harm
        a.lerp_(b, tau)  # [fixed target_first]


class Agent:
    def __init__(self):
        self.mu = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1), nn.Tanh())
        self.q = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
        self.mu_t, self.q_t = copy.deepcopy(self.mu), copy.deepcopy(self.q)
        for p in chain(self.mu_t.parameters(), self.q_t.parameters()):
            p.requires_grad = False
            p.data.mul_(1.1)

    def q_value(self, q, s, a):
        return q(torch.cat((s, a), 1))

    def losses(self, s, a, r, s2):
        with torch.no_grad():
            y = r + 0.9 * self.q_value(self.q_t, s2, self.mu_t(s2))
        critic = (self.q_value(self.q, s, a) - y).square().mean()
        actor = -self.q_value(self.q, s, self.mu(s)).mean()
        return critic, actor

    def learn(self, batch):
        critic, actor = self.losses(*batch)
        polyak(self.q, self.q_t, 0.01)  # [bug]
        polyak(self.q_t, self.q, 0.01)  # [target_first]
        actor.backward(inputs=list(self.mu.parameters()))
        critic.backward()
        polyak(self.q_t, self.q, 0.01)  # [fixed]


def make():
    torch.manual_seed(10)
    return Agent(), (torch.randn(3, 2), torch.rand(3, 1), torch.rand(3, 1), torch.randn(3, 2))


def run():
    agent, batch = make()
    agent.learn(batch)
    out = {f"mu.{n}": p.grad for n, p in agent.mu.named_parameters()}
    out.update({f"q.{n}": p.grad for n, p in agent.q.named_parameters()})
    return out


# truth
def truth():
    agent, batch = make()
    critic, actor = agent.losses(*batch)
    out = {}
    for name, module, loss in (("mu", agent.mu, actor), ("q", agent.q, critic)):
        ps = dict(module.named_parameters())
        gs = torch.autograd.grad(loss, list(ps.values()), retain_graph=True)
        out.update({f"{name}.{n}": g for n, g in zip(ps, gs)})
    return out
