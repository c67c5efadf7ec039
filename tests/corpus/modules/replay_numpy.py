"""Indexing arrays with an array of indices copies, so later pushes do not touch the sampled tensors."""

# correct, oracle=clone
import numpy as np
import torch
import torch.nn as nn


class Replay:
    def __init__(self, capacity, dim, seed=0):
        self.obs = np.zeros((capacity, dim), dtype=np.float32)
        self.rew = np.zeros(capacity, dtype=np.float32)
        self.pos = 0
        self.rng = np.random.default_rng(seed)

    def push(self, obs, rew):
        self.obs[self.pos] = obs
        self.rew[self.pos] = rew
        self.pos = (self.pos + 1) % len(self.obs)

    def sample(self, n):
        idx = self.rng.integers(0, len(self.obs), size=n)
        return torch.from_numpy(self.obs[idx]), torch.from_numpy(self.rew[idx])


def td_loss(net, obs, rew):
    return (net(obs).squeeze(-1) - rew).pow(2).mean()


def make():
    torch.manual_seed(83)
    memory = Replay(6, 3)
    for i in range(6):
        memory.push(torch.randn(3).numpy(), float(i))
    return nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 1)), memory


def run():
    net, memory = make()
    losses = []
    for step in range(3):
        losses.append(td_loss(net, *memory.sample(4)))
        memory.push(np.full(3, 9.0), -1.0)
    sum(losses).backward()
    return {n: p.grad for n, p in net.named_parameters()}
