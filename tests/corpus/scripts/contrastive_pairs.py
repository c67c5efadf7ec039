"""SimCLR on vectors, right: the diagonal of the similarities is filled in place before anything has saved them."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Augment:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        x = x.clone()
        x[torch.rand(x.shape, generator=self.generator) < 0.15] = 0.0
        x.add_(0.05 * torch.randn(x.shape, generator=self.generator))
        return x


class Projector(nn.Module):
    def __init__(self, inside=10, width=12, outside=6):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(inside, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True))
        self.head = nn.Linear(width, outside)

    def forward(self, x):
        return F.normalize(self.head(self.backbone(x)), dim=1)


def nt_xent(one, two, temperature=0.3):
    z = torch.cat([one, two])
    similarity = z @ z.t()
    similarity /= temperature
    similarity.fill_diagonal_(-1e4)
    count = len(one)
    goal = torch.arange(2 * count).roll(count)
    return F.cross_entropy(similarity, goal)


class Warmup:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps, self.done = optimizer, steps, 0
        self.peak = optimizer.param_groups[0]["lr"]

    def step(self):
        self.done += 1
        self.optimizer.param_groups[0]["lr"] = self.peak * min(1.0, self.done / self.steps)


class Statistics:
    """A running mean of the embeddings; kept apart from the graph."""

    def __init__(self, width):
        self.mean = torch.zeros(width)

    def update(self, z):
        self.mean.lerp_(z.detach().mean(0), 0.1)
        return self.mean.norm().item()


def main():
    torch.manual_seed(79)
    model, augment = Projector(), Augment(79)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    warmup, statistics = Warmup(optimizer, 3), Statistics(6)
    data = torch.randn(18, 10)
    for step, x in enumerate(data.split(6)):
        warmup.step()
        one, two = model(augment(x)), model(augment(x))
        loss = nt_xent(one, two)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step}: {loss.item():.4f} mean {statistics.update(one):.4f}")


if __name__ == "__main__":
    main()
