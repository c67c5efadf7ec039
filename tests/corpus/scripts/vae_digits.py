"""A variational autoencoder that adds the noise to the mean in place, after the divergence has squared it."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, pixels=16, width=12, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.ELU())
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ELU(), nn.Linear(width, pixels))

    def encode(self, x):
        hidden = self.encoder(x)
        return self.mean(hidden), self.log_variance(hidden)

    def divergence(self, mean, log_variance):
        each = 1 + log_variance - mean.pow(2) - log_variance.exp()  # saves
        return -0.5 * each.sum(dim=1).mean()

    def sample(self, mean, log_variance):
        noise = torch.randn_like(mean)
        noise.mul_((0.5 * log_variance).exp())
        return mean.add_(noise)  # [bug] harm
        return mean.add(noise)  # [fixed]

    def forward(self, x):
        mean, log_variance = self.encode(x)
        divergence = self.divergence(mean, log_variance)
        return self.decoder(self.sample(mean, log_variance)), divergence


def digits(count, generator):
    """Four by four pictures of a bar at a random place."""
    images = torch.zeros(count, 4, 4)
    for image in images:
        place = torch.randint(4, (2,), generator=generator).tolist()
        image[place[0]] = 1.0
        image[:, place[1]] = 1.0
    return images.flatten(1)


def loss_of(model, x, beta):
    logits, divergence = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
    return reconstruction + beta * divergence, reconstruction


def train(epochs=2):
    torch.manual_seed(8)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(8)
    for epoch in range(epochs):
        beta = min(1.0, 0.5 + 0.5 * epoch)
        for x in digits(16, generator).split(8):
            loss, reconstruction = loss_of(model, x, beta)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f} of which pictures {reconstruction.item():.4f}")


if __name__ == "__main__":
    train()
