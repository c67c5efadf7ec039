"""A Gaussian process with learned kernel parameters; jitter is added in place to a fresh kernel matrix; right."""

# correct
import math

import torch
from torch import nn


class Kernel(nn.Module):
    def __init__(self, dimensions):
        super().__init__()
        self.log_lengths = nn.Parameter(torch.zeros(dimensions))
        self.log_amplitude = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        scaled_a, scaled_b = a / self.log_lengths.exp(), b / self.log_lengths.exp()
        distance = (scaled_a.unsqueeze(1) - scaled_b.unsqueeze(0)).pow(2).sum(-1)
        distance *= -0.5
        return self.log_amplitude.exp() * distance.exp()


class GaussianProcess(nn.Module):
    def __init__(self, dimensions):
        super().__init__()
        self.kernel = Kernel(dimensions)
        self.log_noise = nn.Parameter(torch.tensor(-2.0))
        self.mean = nn.Parameter(torch.zeros(()))

    def covariance(self, x):
        matrix = self.kernel(x, x)
        matrix.diagonal().add_(self.log_noise.exp() + 1e-5)
        return matrix

    def loss(self, x, y):
        factor = torch.linalg.cholesky(self.covariance(x))
        rest = (y - self.mean).unsqueeze(1)
        alpha = torch.cholesky_solve(rest, factor)
        fit = 0.5 * (rest * alpha).sum()
        return fit + factor.diagonal().log().sum() + 0.5 * len(y) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, new):
        factor = torch.linalg.cholesky(self.covariance(x))
        alpha = torch.cholesky_solve((y - self.mean).unsqueeze(1), factor)
        mean = self.kernel(new, x) @ alpha
        mean += self.mean
        return mean.squeeze(1)


def surface(x):
    return torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2


def main():
    torch.manual_seed(106)
    x = torch.rand(14, 2) * 3
    y = surface(x)
    y += 0.05 * torch.randn(14)
    new = torch.rand(6, 2) * 3
    process = GaussianProcess(2)
    optimizer = torch.optim.Adam(process.parameters(), lr=5e-2)
    for step in range(4):
        optimizer.zero_grad()
        loss = process.loss(x, y)
        loss.backward()
        optimizer.step()
        error = (process.predict(x, y, new) - surface(new)).abs().mean().item()
        print(f"step {step}: {loss.item():.4f}, error {error:.4f}")


if __name__ == "__main__":
    main()
