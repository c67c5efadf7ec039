"""Illegal moves are masked in place in logits that Categorical's logsumexp has saved."""

# raises-backward
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.body = nn.Linear(n_obs, 8)
        self.pi = nn.Linear(8, n_act)

    def forward(self, obs):
        return self.pi(torch.tanh(self.body(obs)))


def best_legal(logits, legal):
    logits[~legal] = float("-inf")  # harm
    return logits.argmax(-1)


def collect(policy, obs, legal, log):
    logits = policy(obs)
    dist = Categorical(logits=logits)  # saves
    a = dist.sample()
    logp = dist.log_prob(a)
    log["agreement"] = (best_legal(logits, legal) == a).float().mean().item()
    return a, logp


def make():
    torch.manual_seed(56)
    obs = torch.randn(6, 4)
    legal = torch.rand(6, 5) > 0.3
    legal[:, 0] = True
    return Policy(4, 5), obs, legal, torch.randn(6)


def run():
    policy, obs, legal, advantage = make()
    log = {}
    a, logp = collect(policy, obs, legal, log)
    loss = -(logp * advantage).mean()
    loss.backward()
    return {n: p.grad for n, p in policy.named_parameters()}
