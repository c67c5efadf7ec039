"""An energy-based model: Langevin samples walk in place under no_grad, apart from the graph that trains; right."""

# correct
import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self, width=14):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class ReplayBuffer:
    def __init__(self, size, generator):
        self.samples = torch.rand(size, 2, generator=generator) * 4 - 2
        self.generator = generator

    def draw(self, count):
        self.places = torch.randperm(len(self.samples), generator=self.generator)[:count]
        start = self.samples[self.places]
        fresh = torch.rand(count, generator=self.generator) < 0.1
        start[fresh] = torch.rand(int(fresh.sum()), 2, generator=self.generator) * 4 - 2
        return start

    def put_back(self, samples):
        self.samples[self.places] = samples.detach()


def langevin(energy, x, steps, size, generator):
    x = x.detach().requires_grad_(True)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(energy(x).sum(), x)
        slope.clamp_(-1, 1)
        with torch.no_grad():
            x.sub_(size * slope)
            x.add_(torch.randn(x.shape, generator=generator), alpha=0.05)
    return x.detach()


def two_bananas(count, generator):
    x = torch.randn(count, 2, generator=generator) * 0.3
    x[:, 1] += x[:, 0] ** 2
    x[: count // 2] += 1.0
    return x


def main():
    torch.manual_seed(108)
    generator = torch.Generator().manual_seed(108)
    energy, buffer = Energy(), ReplayBuffer(32, generator)
    optimizer = torch.optim.Adam(energy.parameters(), lr=5e-3)
    for step in range(3):
        real = two_bananas(8, generator)
        fake = langevin(energy, buffer.draw(8), 4, 0.1, generator)
        buffer.put_back(fake)
        low, high = energy(real), energy(fake)
        loss = low.mean() - high.mean() + 0.1 * (low.pow(2) + high.pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for p in energy.parameters():
            p.data.clamp_(-2, 2)
        print(f"step {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
