"""The actor's loss goes through the target critic, whose weights the soft update writes through .data before its backward."""

# silently-wrong, oracle=clone
import torch
from torch import nn


def soft_update(target, source, tau):
    for tp, sp in zip(target.parameters(), source.parameters()):
        tp.data.copy_(tau * sp.data + (1.0 - tau) * tp.data)  # harm


class QNet(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.fc1 = nn.Linear(s + a, 10)
        self.fc2 = nn.Linear(10, 1)

    def forward(self, s, a):
        return self.fc2(torch.tanh(self.fc1(torch.cat([s, a], -1))))  # saves


def make():
    torch.manual_seed(15)
    actor = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2), nn.Tanh())
    critic, critic_target = QNet(3, 2), QNet(3, 2)
    states = torch.randn(16, 3)
    return actor, critic, critic_target, states


def run():
    actor, critic, critic_target, states = make()
    actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    for p in critic_target.parameters():
        p.requires_grad = False

    # the slow critic is smoother, use it for the policy gradient
    actor_loss = -critic_target(states, actor(states)).mean()
    soft_update(critic_target, critic, tau=0.5)

    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    return {"l0": actor[0].weight.grad, "l2": actor[2].weight.grad}
