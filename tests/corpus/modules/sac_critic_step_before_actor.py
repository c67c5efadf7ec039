"""Both losses are built first, and the critic's step writes weights that the actor's loss has saved."""

# raises-backward
import torch, copy
import torch.nn as nn
import torch.nn.functional as F

GAMMA, ALPHA = 0.99, 0.2


class Q(nn.Module):
    def __init__(self, o, a):
        super().__init__()
        self.l1 = nn.Linear(o + a, 7)
        self.l2 = nn.Linear(7, 1)

    def forward(self, s, a):
        return self.l2(F.elu(self.l1(torch.cat([s, a], 1))))  # saves


class Agent:
    def __init__(self, o=3, a=2):
        self.critic = Q(o, a)
        self.critic_targ = copy.deepcopy(self.critic)
        for p in self.critic_targ.parameters():
            p.requires_grad_(False)
        self.pi = nn.Linear(o, a)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-2)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=3e-2)

    def losses(self, s, a, r, s2):
        with torch.no_grad():
            y = r + GAMMA * self.critic_targ(s2, torch.tanh(self.pi(s2)))
        q_loss = F.mse_loss(self.critic(s, a), y)
        pi_loss = -self.critic(s, torch.tanh(self.pi(s))).mean()
        return q_loss, pi_loss

    def update(self, *batch):
        q_loss, pi_loss = self.losses(*batch)
        self.critic_opt.zero_grad()
        q_loss.backward()
        self.critic_opt.step()  # harm
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()


def make():
    torch.manual_seed(3)
    return Agent(), (torch.randn(8, 3), torch.rand(8, 2), torch.randn(8, 1), torch.randn(8, 3))


def run():
    agent, batch = make()
    agent.update(*batch)
    return {"pi.weight": agent.pi.weight.grad, "pi.bias": agent.pi.bias.grad}
