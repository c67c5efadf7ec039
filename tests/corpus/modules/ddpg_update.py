"""Both losses are built first, then the critic's step writes the weights that the actor's loss has saved."""

# raises-backward
import torch
import torch.nn as nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 16), nn.ReLU(), nn.Linear(16, o))


class Agent:
    def __init__(self, n_s=4, n_a=2):
        self.actor, self.critic = mlp(n_s, n_a), mlp(n_s + n_a, 1)
        self.opt = {
            "actor": torch.optim.Adam(self.actor.parameters(), 1e-3),
            "critic": torch.optim.Adam(self.critic.parameters(), 1e-3),
        }

    def q(self, s, a):
        return self.critic(torch.cat([s, a], -1))  # saves

    def losses(self, s, a, target):
        yield "critic", (self.q(s, a) - target).pow(2).mean()
        yield "actor", -self.q(s, self.actor(s)).mean()

    def apply(self, name, loss):
        self.opt[name].zero_grad()
        loss.backward()
        self.opt[name].step()  # harm

    def update(self, batch):
        for name, loss in list(self.losses(*batch)):
            self.apply(name, loss)


def make():
    torch.manual_seed(62)
    return Agent(), (torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1))


def run():
    agent, batch = make()
    agent.update(batch)
    return {n: p.grad for n, p in agent.actor.named_parameters()}
