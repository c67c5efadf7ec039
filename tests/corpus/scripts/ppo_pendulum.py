"""PPO with several epochs over a rollout: the ratio is clamped in place after the unclamped surrogate was made of it."""

# bug: raises-backward
# fixed: correct
# arguments: --updates 2 --epochs 2
import argparse

import torch
from torch import nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, states=3, actions=1, width=16):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, actions))
        self.critic = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def policy(self, states):
        return Normal(self.actor(states), self.log_std.exp())

    def value(self, states):
        return self.critic(states).squeeze(-1)


class Rollout:
    def __init__(self, length, gamma=0.95, lam=0.9):
        self.length, self.gamma, self.lam = length, gamma, lam

    @torch.no_grad()
    def collect(self, model, generator):
        state = torch.randn(3, generator=generator)
        states, actions, log_probs, rewards = [], [], [], []
        for _ in range(self.length):
            policy = model.policy(state)
            action = policy.mean + policy.stddev * torch.randn(1, generator=generator)
            states.append(state)
            actions.append(action)
            log_probs.append(policy.log_prob(action).sum())
            rewards.append(-state.pow(2).sum() - 0.1 * action.pow(2).sum())
            state = 0.95 * state + 0.1 * torch.cat([action, action.sin(), torch.zeros(1)])
        states = torch.stack(states)
        values = torch.cat([model.value(states), model.value(state[None])])
        advantages = torch.zeros(self.length)
        running = 0.0
        for t in reversed(range(self.length)):
            delta = rewards[t] + self.gamma * values[t + 1] - values[t]
            running = delta + self.gamma * self.lam * running
            advantages[t] = running
        returns = advantages + values[:-1]
        advantages -= advantages.mean()
        advantages /= advantages.std() + 1e-8
        return states, torch.stack(actions), torch.stack(log_probs), advantages, returns


def surrogate(model, states, actions, old, advantages, clip):
    new = model.policy(states).log_prob(actions).sum(-1)
    ratio = (new - old).exp()  # saves
    unclamped = ratio * advantages
    ratio = ratio.clamp_(1 - clip, 1 + clip)  # [bug] harm
    ratio = ratio.clamp(1 - clip, 1 + clip)  # [fixed]
    return -torch.min(unclamped, ratio * advantages).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--clip", type=float, default=0.2)
    args = parser.parse_args()
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-5)
    for update in range(args.updates):
        states, actions, old, advantages, returns = Rollout(8).collect(model, generator)
        for _ in range(args.epochs):
            policy_loss = surrogate(model, states, actions, old, advantages, args.clip)
            value_loss = (model.value(states) - returns).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss - 0.01 * model.policy(states).entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        print(f"update {update}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
