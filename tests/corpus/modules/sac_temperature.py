"""The temperature steps before the actor's backward, whose loss holds a separate detached exponential of it."""

# correct, oracle=clone
import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, obs=3, act=2):
        super().__init__()
        self.base = nn.Linear(obs, 8)
        self.mu = nn.Linear(8, act)
        self.ls = nn.Linear(8, act)

    def sample(self, obs):
        h = torch.relu(self.base(obs))
        mu, ls = self.mu(h), self.ls(h).clamp(-5, 2)
        u = mu + ls.exp() * torch.randn_like(mu)
        a = torch.tanh(u)
        logp = (-0.5 * ((u - mu) / ls.exp()) ** 2 - ls - torch.log(1 - a**2 + 1e-6)).sum(-1)
        return a, logp


def make():
    torch.manual_seed(53)
    critic = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    return Actor(), critic, log_alpha, torch.randn(9, 3)


def run():
    actor, critic, log_alpha, obs = make()
    target_entropy = -2.0
    alpha_opt = torch.optim.SGD([log_alpha], lr=0.1)
    actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)

    act, logp = actor.sample(obs)
    alpha = log_alpha.exp().detach()
    actor_loss = (alpha * logp - critic(torch.cat([obs, act], -1)).squeeze(-1)).mean()

    alpha_loss = -(log_alpha * (logp + target_entropy).detach()).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()

    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    return {
        "log_alpha": log_alpha.grad,
        "base": actor.base.weight.grad,
        "mu": actor.mu.weight.grad,
        "ls": actor.ls.weight.grad,
    }
