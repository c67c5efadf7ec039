"""A GAN on points of a ring: the generator's loss is computed before the discriminator's step, and goes backward after it."""

# bug: raises-backward
# fixed: correct
import math

import torch
import torch.nn.functional as F
from torch import nn

LATENT, BATCH, STEPS = 4, 16, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LATENT, 24), nn.LeakyReLU(0.2), nn.Linear(24, 2))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 24)
        self.second = nn.Linear(24, 1)

    def forward(self, points):
        hidden = F.leaky_relu(self.first(points), 0.2)
        return self.second(hidden)  # saves


def ring(count, generator):
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    radius = 1 + 0.05 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def train():
    torch.manual_seed(0)
    noise = torch.Generator().manual_seed(1)
    generator, discriminator = Generator(), Discriminator()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    for step in range(STEPS):
        real = ring(BATCH, noise)
        fake = generator(torch.randn(BATCH, LATENT, generator=noise))

        d_real = F.binary_cross_entropy_with_logits(discriminator(real), ones)
        d_fake = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), zeros)
        d_loss = (d_real + d_fake) / 2
        g_loss = F.binary_cross_entropy_with_logits(discriminator(fake), ones)

        g_optimizer.zero_grad()  # [fixed]
        g_loss.backward()  # [fixed]
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()  # harm

        g_optimizer.zero_grad()  # [bug]
        g_loss.backward()  # [bug]
        g_optimizer.step()

        if step % 2 == 0:
            print(f"[{step}] D {d_loss.item():.4f}  G {g_loss.item():.4f}")


if __name__ == "__main__":
    train()
