"""Spectral normalisation by hand: the second forward pass of a step writes the vector that the first has saved."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class SpectralLinear(nn.Module):
    """A linear layer divided by an estimate of its largest singular value."""

    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) * inside**-0.5)
        self.bias = nn.Parameter(torch.zeros(outside))
        self.register_buffer("u", F.normalize(torch.randn(outside), dim=0))
        self.register_buffer("v", F.normalize(torch.randn(inside), dim=0))

    def power_iteration(self):
        with torch.no_grad():
            self.v.copy_(F.normalize(self.weight.t() @ self.u, dim=0))  # harm
            self.u.copy_(F.normalize(self.weight @ self.v, dim=0))  # harm

    def forward(self, x):
        if self.training:
            self.power_iteration()
        u, v = self.u, self.v  # [bug]
        u, v = self.u.clone(), self.v.clone()  # [fixed]
        sigma = torch.dot(u, torch.mv(self.weight, v))  # saves
        return F.linear(x, self.weight / sigma, self.bias)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = SpectralLinear(4, 10)
        self.score = SpectralLinear(10, 1)

    def forward(self, x):
        return self.score(F.leaky_relu(self.hidden(x), 0.1))


def hinge(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def main():
    torch.manual_seed(21)
    critic = Critic()
    generator = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 4))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    for step in range(3):
        real = torch.randn(8, 4) + 1
        fake = generator(torch.randn(8, 3))
        critic_loss = hinge(critic(real), critic(fake.detach()))
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        generator_loss = -critic(fake).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        print(f"{step}: critic {critic_loss.item():.4f}, generator {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
