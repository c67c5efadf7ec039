"""Every epoch computes its log-probabilities afresh, and only advantages made under no_grad are normalised in place."""

# correct, oracle=clone
from __future__ import annotations
from dataclasses import dataclass
import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class PPOConfig:
    epochs: int = 3
    clip: float = 0.2
    ent_coef: float = 0.01
    max_norm: float = 0.5


class ActorCritic(nn.Module):
    def __init__(self, obs: int = 4, act: int = 3) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(obs, 6), nn.Tanh())
        self.pi = nn.Linear(6, act)
        self.vf = nn.Linear(6, 1)

    def forward(self, s):
        z = self.shared(s)
        return Categorical(logits=self.pi(z)), self.vf(z).squeeze(-1)


def ppo_loss(net, cfg, s, a, old_logp, adv, ret):
    dist, v = net(s)
    ratio = (dist.log_prob(a) - old_logp).exp()
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    pg = -torch.min(ratio * adv, clipped * adv).mean()
    return pg + 0.5 * (v - ret).pow(2).mean() - cfg.ent_coef * dist.entropy().mean()


def make():
    torch.manual_seed(13)
    return PPOConfig(), ActorCritic(), torch.randn(10, 4), torch.randn(10)


def run():
    cfg, net, s, ret = make()
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    with torch.no_grad():
        dist, v = net(s)
        a = dist.sample()
        old_logp = dist.log_prob(a)
        adv = ret - v
        adv -= adv.mean()
        adv /= adv.std() + 1e-8
    for _ in range(cfg.epochs):
        loss = ppo_loss(net, cfg, s, a, old_logp, adv, ret)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), cfg.max_norm)
        opt.step()
    return {"shared": net.shared[0].weight.grad, "pi": net.pi.weight.grad}
