"""A Wasserstein critic whose weights are clipped through .data between its loss and the backward pass."""

# bug: silently-wrong
# fixed: correct
import torch
from torch import nn

CLIP = 0.05


class Critic(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.inner = nn.Linear(3, width)
        self.outer = nn.Linear(width, 1)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))  # saves


class Generator(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, z):
        return self.net(z)


def clip_weights(critic):
    for parameter in critic.parameters():
        parameter.data.clamp_(-CLIP, CLIP)  # harm


class Trainer:
    """Five critic steps for each step of the generator, as in the paper; here two."""

    def __init__(self, seed=3, critic_steps=2):
        torch.manual_seed(seed)
        self.critic, self.generator = Critic(), Generator()
        self.critic_optimizer = torch.optim.RMSprop(self.critic.parameters(), lr=5e-3)
        self.generator_optimizer = torch.optim.RMSprop(self.generator.parameters(), lr=5e-3)
        self.critic_steps = critic_steps
        self.history = []

    def real(self, count=10):
        return torch.randn(count, 3) * 0.5 + torch.tensor([1.0, -1.0, 0.5])

    def train_critic(self):
        fake = self.generator(torch.randn(10, 2)).detach()
        loss = self.critic(fake).mean() - self.critic(self.real()).mean()
        self.critic_optimizer.zero_grad()
        clip_weights(self.critic)  # [bug]
        loss.backward()
        clip_weights(self.critic)  # [fixed]
        self.critic_optimizer.step()
        return loss.item()

    def train_generator(self):
        loss = -self.critic(self.generator(torch.randn(10, 2))).mean()
        self.generator_optimizer.zero_grad()
        loss.backward()
        self.generator_optimizer.step()
        return loss.item()

    def run(self, rounds):
        for _ in range(rounds):
            critic_losses = [self.train_critic() for _ in range(self.critic_steps)]
            self.history.append((sum(critic_losses) / len(critic_losses), self.train_generator()))
        return self.history


for critic_loss, generator_loss in Trainer().run(3):
    print(f"critic {critic_loss:+.5f} generator {generator_loss:+.5f}")
