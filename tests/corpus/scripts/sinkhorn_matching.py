"""Learning to sort by Sinkhorn iterations whose normalisations subtract in place from what logsumexp has saved."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class SinkhornSort(nn.Module):
    """Scores each number, and turns the scores into a nearly doubly stochastic matrix."""

    def __init__(self, width=12, temperature=0.7, iterations=3):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
        self.temperature, self.iterations = temperature, iterations

    def logits(self, numbers):
        scores = self.score(numbers.unsqueeze(-1)).squeeze(-1)
        anchors = torch.linspace(-1, 1, numbers.size(1))
        return -(scores.unsqueeze(2) - anchors).pow(2) / self.temperature

    def normalise(self, log_p):
        for _ in range(self.iterations):
            log_p -= log_p.logsumexp(dim=2, keepdim=True)  # [bug] harm saves
            log_p -= log_p.logsumexp(dim=1, keepdim=True)  # [bug] harm saves
            log_p = log_p - log_p.logsumexp(dim=2, keepdim=True)  # [fixed]
            log_p = log_p - log_p.logsumexp(dim=1, keepdim=True)  # [fixed]
        return log_p

    def forward(self, numbers):
        return self.normalise(self.logits(numbers)).exp()


def soft_sort(matrix, numbers):
    return torch.einsum("bns,bn->bs", matrix, numbers)


def batch(generator, count=5, length=4):
    numbers = torch.rand(count, length, generator=generator) * 2 - 1
    return numbers, numbers.sort(dim=1).values


@torch.no_grad()
def exact_share(model, generator):
    numbers, goal = batch(generator, count=20)
    places = model(numbers).argmax(dim=1)
    return (numbers.gather(1, places) == goal).float().mean().item()


def main():
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    model = SinkhornSort()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for step in range(3):
        numbers, goal = batch(generator)
        loss = (soft_sort(model(numbers), numbers) - goal).pow(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}")
    print(f"in the right place: {exact_share(model, generator):.2f}")


if __name__ == "__main__":
    main()
