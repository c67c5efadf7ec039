"""Deep deterministic policy gradient, as it should be: every write in place comes when nothing waits for the old values."""

# correct
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Noise:
    """An Ornstein-Uhlenbeck process that is moved in place."""

    def __init__(self, size, generator):
        self.state, self.generator = torch.zeros(size), generator

    def __call__(self):
        self.state.mul_(0.85).add_(0.2 * torch.randn(self.state.shape, generator=self.generator))
        return self.state.clone()


class Buffer:
    def __init__(self, capacity):
        self.rows = torch.zeros(capacity, 3 + 1 + 1 + 3)
        self.used = 0

    def push(self, *parts):
        self.rows[self.used % len(self.rows)] = torch.cat([part.reshape(-1) for part in parts])
        self.used += 1

    def sample(self, count, generator):
        chosen = torch.randint(min(self.used, len(self.rows)), (count,), generator=generator)
        return self.rows[chosen].split([3, 1, 1, 3], dim=1)


class Agent:
    def __init__(self, generator):
        self.actor = nn.Sequential(nn.Linear(3, 12), nn.ReLU(inplace=True), nn.Linear(12, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(4, 12), nn.ReLU(inplace=True), nn.Linear(12, 1))
        self.slow_actor, self.slow_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-3)
        self.noise = Noise(1, generator)

    @torch.no_grad()
    def act(self, state):
        return (self.actor(state) + self.noise()).clamp_(-1, 1)

    def learn(self, state, action, reward, following):
        with torch.no_grad():
            later = self.slow_critic(torch.cat([following, self.slow_actor(following)], 1))
            goal = reward + 0.9 * later
        critic_loss = F.smooth_l1_loss(self.critic(torch.cat([state, action], 1)), goal)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(torch.cat([state, self.actor(state)], 1)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        self.follow(self.slow_actor, self.actor)
        self.follow(self.slow_critic, self.critic)
        return critic_loss.item(), actor_loss.item()

    @staticmethod
    def follow(slow, fast, tau=0.05):
        for mine, theirs in zip(slow.parameters(), fast.parameters()):
            mine.data.mul_(1 - tau).add_(theirs.data, alpha=tau)


def main():
    torch.manual_seed(53)
    generator = torch.Generator().manual_seed(53)
    agent, buffer, state = Agent(generator), Buffer(32), torch.zeros(3)
    for step in range(12):
        action = agent.act(state)
        following = 0.9 * state + torch.cat([action, action**2, torch.ones(1) * 0.1])
        buffer.push(state, action, -following.norm(), following)
        state = following
        if step >= 8:
            print(step, *(f"{loss:.4f}" for loss in agent.learn(*buffer.sample(6, generator))))


main()
