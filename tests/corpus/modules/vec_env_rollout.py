"""An environment's NumPy buffer, shared by from_numpy, is overwritten by the next step while the policy's graph needs it."""

# silently-wrong, oracle=clone
import numpy as np
import torch
from torch import nn


class VecEnv:
    """keeps one observation array for all envs, like most C++ vec envs"""

    def __init__(self, n, dim, seed):
        rng = np.random.default_rng(seed)
        self.A = rng.normal(size=(dim, dim)) * 0.4
        self.obs = rng.normal(size=(n, dim))

    def step(self, action):
        np.copyto(self.obs, np.tanh(self.obs @ self.A + action[:, None]))  # harm
        return self.obs, -np.abs(self.obs).sum(1)


def make():
    torch.manual_seed(7)
    env = VecEnv(4, 3, seed=7)
    policy = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    return env, policy


def run():
    env, policy = make()
    obs = env.obs
    logps, rewards = [], []
    for t in range(3):
        mu = policy(torch.from_numpy(obs)).squeeze(-1)  # saves
        a = (mu + 0.5 * torch.randn_like(mu)).detach()
        logps.append(-0.5 * ((a - mu) / 0.5) ** 2)
        obs, r = env.step(a.numpy())
        rewards.append(torch.from_numpy(r).clone())
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(logps) * (returns - returns.mean())).mean()
    loss.backward()
    return {n: p.grad for n, p in policy.named_parameters()}
