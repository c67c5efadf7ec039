"""A VQ-VAE with a codebook that follows by moving averages, and restarts of unused codes; right: the lookup is a copy."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Codebook(nn.Module):
    def __init__(self, codes, width, decay=0.8):
        super().__init__()
        self.decay = decay
        self.register_buffer("vectors", torch.randn(codes, width))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.vectors.clone())

    @torch.no_grad()
    def follow(self, inputs, chosen):
        one_hot = F.one_hot(chosen, len(self.counts)).float()
        self.counts.mul_(self.decay).add_(one_hot.sum(0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(one_hot.t() @ inputs, alpha=1 - self.decay)
        self.vectors.copy_(self.sums / self.counts.clamp(min=1e-3)[:, None])
        unused = self.counts < 0.2
        if unused.any():
            fresh = inputs[torch.randint(len(inputs), (int(unused.sum()),))]
            self.vectors[unused] = fresh
            self.sums[unused] = fresh
            self.counts[unused] = 1.0

    def forward(self, inputs):
        with torch.no_grad():
            chosen = torch.cdist(inputs, self.vectors).argmin(1)
        nearest = self.vectors[chosen]
        commitment = F.mse_loss(inputs, nearest)
        if self.training:
            self.follow(inputs.detach(), chosen)
        return inputs + (nearest - inputs).detach(), commitment, chosen


class Model(nn.Module):
    def __init__(self, pixels=10, width=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, 12), nn.ReLU(inplace=True), nn.Linear(12, width))
        self.codebook = Codebook(6, width)
        self.decoder = nn.Sequential(nn.Linear(width, 12), nn.ReLU(inplace=True), nn.Linear(12, pixels))

    def forward(self, x):
        quantised, commitment, chosen = self.codebook(self.encoder(x))
        return self.decoder(quantised), commitment, chosen


def main():
    torch.manual_seed(102)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    shapes = torch.randn(5, 10)
    for step in range(4):
        x = shapes[torch.randint(5, (12,))]
        x += 0.05 * torch.randn_like(x)
        decoded, commitment, chosen = model(x)
        loss = F.mse_loss(decoded, x) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}, {len(chosen.unique())} codes in use")


if __name__ == "__main__":
    main()
