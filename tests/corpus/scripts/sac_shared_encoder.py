"""Soft actor-critic: the actor's loss is computed from the critic before the critic's step and goes backward after it."""

# bug: raises-backward
# fixed: correct
import copy

import torch
import torch.nn.functional as F
from torch import nn


def mlp(inside, outside, width=12):
    return nn.Sequential(nn.Linear(inside, width), nn.ReLU(), nn.Linear(width, outside))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(3, 2)

    def forward(self, state):
        mean, log_std = self.net(state).chunk(2, dim=-1)
        log_std = log_std.clamp(-5, 2)
        normal = torch.distributions.Normal(mean, log_std.exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(-1, keepdim=True)


class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = mlp(4, 1), mlp(4, 1)

    def forward(self, state, action):
        both = torch.cat([state, action], dim=-1)
        return self.one(both), self.two(both)  # saves


class SoftActorCritic:
    def __init__(self, gamma=0.95, tau=0.1):
        self.policy, self.critic = Policy(), TwinCritic()
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.tensor(-1.0, requires_grad=True)
        self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-3)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=3e-3)
        self.gamma, self.tau = gamma, tau

    def critic_loss(self, state, action, reward, following):
        with torch.no_grad():
            new, log_prob = self.policy(following)
            value = torch.min(*self.target(following, new)) - self.log_alpha.exp() * log_prob
            goal = reward + self.gamma * value
        return sum(F.mse_loss(q, goal) for q in self.critic(state, action))

    def policy_loss(self, state):
        action, log_prob = self.policy(state)
        value = torch.min(*self.critic(state, action))
        return (self.log_alpha.exp().detach() * log_prob - value).mean(), log_prob.detach()

    def update(self, batch):
        critic_loss = self.critic_loss(*batch)
        policy_loss, log_prob = self.policy_loss(batch[0])
        self.policy_optimizer.zero_grad()  # [fixed]
        policy_loss.backward()  # [fixed]
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()  # harm
        self.policy_optimizer.zero_grad()  # [bug]
        policy_loss.backward()  # [bug]
        self.policy_optimizer.step()
        alpha_loss = -(self.log_alpha * (log_prob - 1.0)).mean()
        self.alpha_optimizer.zero_grad()
        alpha_loss.backward()
        self.alpha_optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.critic.parameters()):
                slow.lerp_(fast, self.tau)
        return critic_loss.item(), policy_loss.item()


if __name__ == "__main__":
    torch.manual_seed(23)
    agent = SoftActorCritic()
    for step in range(3):
        batch = torch.randn(8, 3), torch.rand(8, 1) * 2 - 1, torch.randn(8, 1), torch.randn(8, 3)
        print(step, *(f"{loss:.5f}" for loss in agent.update(batch)))
