"""The log deviation is one of two views that chunk returned, and such views may not be clamped in place."""

# raises-forward
from dataclasses import dataclass
import torch
import torch.nn as nn
from torch.distributions import Normal


@dataclass(frozen=True)
class SACConfig:
    obs_dim: int = 5
    act_dim: int = 2
    hidden: int = 8
    log_std_min: float = -5.0
    log_std_max: float = 2.0
    alpha: float = 0.2


class SquashedGaussianActor(nn.Module):
    def __init__(self, cfg: SACConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.trunk = nn.Sequential(nn.Linear(cfg.obs_dim, cfg.hidden), nn.Tanh())
        self.head = nn.Linear(cfg.hidden, 2 * cfg.act_dim)

    def forward(self, obs: torch.Tensor):
        mean, log_std = self.head(self.trunk(obs)).chunk(2, dim=-1)
        log_std.clamp_(self.cfg.log_std_min, self.cfg.log_std_max)
        dist = Normal(mean, log_std.exp())
        raw = dist.rsample()
        act = torch.tanh(raw)
        logp = (dist.log_prob(raw) - torch.log(1 - act.pow(2) + 1e-6)).sum(-1)
        return act, logp


def make():
    torch.manual_seed(11)
    cfg = SACConfig()
    return cfg, SquashedGaussianActor(cfg), torch.randn(6, cfg.obs_dim)


def run():
    cfg, actor, obs = make()
    act, logp = actor(obs)
    loss = (cfg.alpha * logp - act.sum(-1)).mean()
    loss.backward()
    return {"head": actor.head.weight.grad}
