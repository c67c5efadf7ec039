"""Advantage actor-critic on a small pole: the critic's step comes before the actor's loss goes backward."""

# bug: raises-backward
# fixed: correct
# arguments: --episodes 3 --seed 2
import argparse

import torch
from torch import nn
from torch.distributions import Categorical


class Pole:
    """A linear pole on a cart; the state is position, speed, angle and angular speed."""

    def __init__(self, generator):
        self.generator = generator
        self.state = None

    def reset(self):
        self.state = torch.rand(4, generator=self.generator) * 0.1 - 0.05
        return self.state.clone()

    def step(self, action):
        force = 1.0 if action == 1 else -1.0
        x, v, a, w = self.state.tolist()
        w += 0.02 * (9.8 * a - force)
        v += 0.02 * force
        self.state = torch.tensor([x + 0.02 * v, v, a + 0.02 * w, w])
        done = abs(self.state[2].item()) > 0.2
        return self.state.clone(), 1.0, done


class Actor(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, state):
        return Categorical(logits=self.net(state))


class Critic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Linear(4, hidden)
        self.value = nn.Linear(hidden, 1)

    def forward(self, state):
        return self.value(torch.tanh(self.body(state))).squeeze(-1)  # saves


def discounted(rewards, gamma):
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.insert(0, total)
    return torch.tensor(returns)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    env = Pole(torch.Generator().manual_seed(args.seed))
    actor, critic = Actor(args.hidden), Critic(args.hidden)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)

    for episode in range(args.episodes):
        state, done = env.reset(), False
        log_probs, values, rewards = [], [], []
        while not done and len(rewards) < 12:
            policy = actor(state)
            action = policy.sample()
            log_probs.append(policy.log_prob(action))
            values.append(critic(state))
            state, reward, done = env.step(action.item())
            rewards.append(reward)

        returns = discounted(rewards, args.gamma)
        advantage = returns - torch.stack(values)
        critic_loss = advantage.pow(2).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward(retain_graph=True)
        critic_optimizer.step()  # harm

        actor_loss = -(torch.stack(log_probs) * advantage).mean()  # [bug]
        actor_loss = -(torch.stack(log_probs) * advantage.detach()).mean()  # [fixed]
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        print(f"episode {episode}: {len(rewards)} steps, actor {actor_loss.item():.4f}")


if __name__ == "__main__":
    main()
