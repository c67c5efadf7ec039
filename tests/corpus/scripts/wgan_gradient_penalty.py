"""A gradient penalty: one is subtracted in place from the norms that their own derivative needs."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, size=3, width=14):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(size, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class Generator(nn.Module):
    def __init__(self, latent=2, size=3, width=14):
        super().__init__()
        self.latent = latent
        self.net = nn.Sequential(nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, size))

    def sample(self, count):
        return self.net(torch.randn(count, self.latent))


def gradient_penalty(critic, real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(between)
    (slope,) = torch.autograd.grad(score.sum(), between, create_graph=True)
    norm = slope.norm(2, dim=1)  # saves
    return norm.sub_(1).pow(2).mean()  # [bug] harm
    return norm.sub(1).pow(2).mean()  # [fixed]


class Data:
    """Two clusters."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def batch(self, count):
        side = torch.randint(2, (count, 1), generator=self.generator) * 2.0 - 1
        return side + 0.2 * torch.randn(count, 3, generator=self.generator)


def critic_step(critic, generator, optimizer, data, weight=10.0):
    real, fake = data.batch(8), generator.sample(8).detach()
    loss = critic(fake).mean() - critic(real).mean() + weight * gradient_penalty(critic, real, fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def generator_step(critic, generator, optimizer):
    loss = -critic(generator.sample(8)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(2)
    critic, generator, data = Critic(), Generator(), Data(2)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.9))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
    for step in range(3):
        losses = [critic_step(critic, generator, of_critic, data) for _ in range(2)]
        print(f"{step}: critic {losses[-1]:.4f} generator {generator_step(critic, generator, of_generator):.4f}")


if __name__ == "__main__":
    main()
