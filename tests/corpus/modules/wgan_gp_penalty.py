"""The penalty subtracts one in place from the result of an addition, not from what the norm saved."""

# correct, oracle=clone
import torch
from torch import nn, autograd


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 10), nn.Softplus(), nn.Linear(10, 10), nn.Softplus(), nn.Linear(10, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1)
    mix = torch.lerp(fake, real, eps).detach().requires_grad_(True)
    score = critic(mix)
    (g,) = autograd.grad(score.sum(), mix, create_graph=True)
    n = g.norm(2, dim=1) + 1e-8
    n -= 1
    return n.pow(2).mean()


def make():
    torch.manual_seed(33)
    return Critic(), torch.randn(8, 3) + 1, torch.randn(8, 3)


def run():
    critic, real, fake = make()
    opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    for _ in range(2):
        opt.zero_grad()
        loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
        loss.backward()
        opt.step()
    return {n: p.grad for n, p in critic.named_parameters() if p.grad is not None and n.endswith("weight")}
