"""Each minibatch builds its own graph; in-place advantage normalisation is under no_grad before use."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=3):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(obs, 12), nn.Tanh())
        self.pi, self.v = nn.Linear(12, act), nn.Linear(12, 1)

    def forward(self, s):
        h = self.shared(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def make():
    torch.manual_seed(66)
    return ActorCritic(), torch.randn(20, 4), torch.rand(20)


def advantages(rewards, values, gamma=0.95, lam=0.9):
    adv = torch.zeros_like(rewards)
    running = 0.0
    for t in reversed(range(len(rewards))):
        nxt = values[t + 1] if t + 1 < len(values) else 0.0
        running = rewards[t] + gamma * nxt - values[t] + gamma * lam * running
        adv[t] = running
    return adv


def run():
    ac, obs, rew = make()
    opt = torch.optim.Adam(ac.parameters(), lr=5e-3)
    with torch.no_grad():
        dist, val = ac(obs)
        act = dist.sample()
        old_logp = dist.log_prob(act)
        adv = advantages(rew, val)
        ret = adv + val
        adv -= adv.mean()
        adv /= adv.std() + 1e-8
    for epoch in range(4):
        for mb in torch.arange(20).chunk(2):
            dist, value = ac(obs[mb])
            ratio = (dist.log_prob(act[mb]) - old_logp[mb]).exp()
            surr = torch.min(ratio * adv[mb], ratio.clamp(0.8, 1.2) * adv[mb])
            loss = -surr.mean() + 0.5 * (value - ret[mb]).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            grads = {n: p.grad.clone() for n, p in ac.named_parameters()}
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
    return grads
