"""A diffusion model on points: an estimate of the clean sample is made in place from the noisy one, for a plot."""

# bug: raises-backward
# fixed: correct
import math

import torch
import torch.nn.functional as F
from torch import nn


class Schedule:
    """The cosine schedule: how much of the signal and of the noise there is after each step."""

    def __init__(self, steps):
        t = torch.arange(steps + 1) / steps
        alpha_bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        self.signal = (alpha_bar[1:] / alpha_bar[0]).clamp_min(1e-4).sqrt_()
        self.noise = (1 - self.signal**2).sqrt()

    def add_noise(self, x, noise, t):
        return self.signal[t, None] * x + self.noise[t, None] * noise


class Denoiser(nn.Module):
    def __init__(self, steps, width=16):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.first = nn.Linear(2, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x, t):
        hidden = self.first(x)  # saves
        return self.second(F.silu(hidden + self.time(t)))


class Monitor:
    """Keeps the mean distance between estimate and truth."""

    def __init__(self):
        self.distances = []

    @torch.no_grad()
    def record(self, noisy, predicted, clean, schedule, t):
        estimate = noisy.sub_(schedule.noise[t, None] * predicted)  # [bug] harm
        estimate = noisy.sub(schedule.noise[t, None] * predicted)  # [fixed]
        estimate.div_(schedule.signal[t, None])  # harm
        self.distances.append((estimate - clean).norm(dim=1).mean().item())


def moons(count, generator):
    angle = math.pi * torch.rand(count, generator=generator)
    upper = torch.randint(2, (count,), generator=generator)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    points[upper == 0] *= -1
    return points


torch.manual_seed(6)
generator = torch.Generator().manual_seed(6)
schedule, monitor = Schedule(10), Monitor()
model = Denoiser(10)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
for iteration in range(4):
    clean = moons(12, generator)
    t = torch.randint(10, (12,), generator=generator)
    noise = torch.randn(clean.shape, generator=generator)
    noisy = schedule.add_noise(clean, noise, t)
    predicted = model(noisy, t)
    loss = F.mse_loss(predicted, noise)
    monitor.record(noisy, predicted, clean, schedule, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(iteration, round(loss.item(), 5), round(monitor.distances[-1], 4))
