"""A world model in three files: the imagined states are clamped in place in a helper that another file calls."""

# bug: raises-backward
# fixed: correct
import torch
from imagine import imagine
from model import Dynamics, Reward
from torch import nn


class Policy(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(states, 10), nn.ELU(), nn.Linear(10, actions), nn.Tanh())

    def forward(self, state):
        return self.net(state)


def fit_dynamics(dynamics, optimizer, generator):
    state, action = torch.randn(8, 3, generator=generator), torch.rand(8, 1, generator=generator) * 2 - 1
    following = 0.9 * state + 0.3 * action
    loss = (dynamics(state, action) - following).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def improve_policy(policy, dynamics, reward, optimizer, generator):
    start = torch.randn(6, 3, generator=generator)
    loss = -imagine(policy, dynamics, reward, start, horizon=3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(20)
    generator = torch.Generator().manual_seed(20)
    policy, dynamics, reward = Policy(3, 1), Dynamics(3, 1), Reward(3)
    of_dynamics = torch.optim.Adam(dynamics.parameters(), lr=1e-2)
    of_policy = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(3):
        model_loss = fit_dynamics(dynamics, of_dynamics, generator)
        policy_loss = improve_policy(policy, dynamics, reward, of_policy, generator)
        print(f"step {step}: model {model_loss:.4f} policy {policy_loss:.4f}")


if __name__ == "__main__":
    main()
