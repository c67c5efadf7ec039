"""Batch normalisation by hand: the batch is centred in place after its variance was computed from it."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, size, momentum=0.1, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.momentum, self.eps = momentum, eps

    def forward(self, x):
        if not self.training:
            return (x - self.mean) / (self.variance + self.eps).sqrt() * self.gamma + self.beta
        mean = x.mean(0)
        variance = x.var(0, unbiased=False)  # saves
        x -= mean  # [bug] harm
        x = x - mean  # [fixed]
        x = x / (variance + self.eps).sqrt()
        with torch.no_grad():
            self.mean.mul_(1 - self.momentum).add_(self.momentum * mean)
            self.variance.mul_(1 - self.momentum).add_(self.momentum * variance)
        return self.gamma * x + self.beta


class Network(nn.Module):
    def __init__(self, inside=6, width=10, outside=3):
        super().__init__()
        self.first, self.norm1 = nn.Linear(inside, width), BatchNorm(width)
        self.second, self.norm2 = nn.Linear(width, width), BatchNorm(width)
        self.out = nn.Linear(width, outside)

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = F.relu(self.norm2(self.second(x)))
        return self.out(x)


def make_data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(3, 6, generator=generator)
    labels = torch.randint(3, (count,), generator=generator)
    return centres[labels] + torch.randn(count, 6, generator=generator), labels


def evaluate(network, x, labels):
    network.eval()
    with torch.no_grad():
        right = (network(x).argmax(1) == labels).float().mean().item()
    network.train()
    return right


def main(epochs=2, batch=8):
    torch.manual_seed(3)
    x, labels = make_data(24, 3)
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for rows in order.split(batch):
            loss = F.cross_entropy(network(x[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}, right {evaluate(network, x, labels):.2f}")


if __name__ == "__main__":
    main()
