"""The actor's step overwrites shared weights that the critic's pending graph has saved."""

# raises-backward
import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=3):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(obs, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        self.pi, self.v = nn.Linear(12, act), nn.Linear(12, 1)

    def forward(self, s):
        h = self.shared(s)  # saves
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def make():
    torch.manual_seed(66)
    return ActorCritic(), torch.randn(20, 4), torch.rand(20)


def run():
    ac, obs, ret = make()
    actor_opt = torch.optim.SGD([*ac.shared.parameters(), *ac.pi.parameters()], lr=5e-3)
    critic_opt = torch.optim.SGD([*ac.shared.parameters(), *ac.v.parameters()], lr=5e-3)
    for epoch in range(3):
        dist, value = ac(obs)
        act = dist.sample()
        adv = (ret - value).detach()
        actor_loss = -(dist.log_prob(act) * adv).mean()
        critic_loss = (value - ret).pow(2).mean()

        actor_opt.zero_grad()
        actor_loss.backward(retain_graph=True)  # retain: the trunk is shared
        actor_opt.step()  # harm

        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()
    return {n: p.grad for n, p in ac.named_parameters() if p.grad is not None}
