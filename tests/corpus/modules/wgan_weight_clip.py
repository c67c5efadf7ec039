"""A critic's weights are clipped through .data after the forward that used them unclipped."""

# silently-wrong, oracle=clone
import torch
from torch import nn


class WGAN:
    def __init__(self, c=0.1):
        self.c = c
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.gen = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
        self.opt = torch.optim.RMSprop(self.critic.parameters(), lr=5e-5)

    def critic_loss(self, real, z):
        with torch.no_grad():
            fake = self.gen(z)
        return self.critic(fake).mean() - self.critic(real).mean()  # saves

    def clip_weights(self):
        for p in self.critic.parameters():
            p.data.clamp_(-self.c, self.c)  # harm

    def train_critic(self, real, z):
        loss = self.critic_loss(real, z)
        self.opt.zero_grad()
        self.clip_weights()
        loss.backward()
        self.opt.step()
        return loss.item()


def make():
    torch.manual_seed(10)
    wgan = WGAN()
    return wgan, torch.randn(6, 3) + 2, torch.randn(6, 2)


def run():
    wgan, real, z = make()
    wgan.train_critic(real, z)
    return {n: p.grad for n, p in wgan.critic.named_parameters()}
