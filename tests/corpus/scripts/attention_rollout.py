"""A vision transformer whose attention maps are prepared for a plot through .detach(), which shares their memory."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Rollout:
    """Multiplies the attention of all layers, with the identity for the skip connections."""

    def __init__(self):
        self.maps = []

    def add(self, weights):
        weights = weights.detach()  # [bug]
        weights = weights.detach().clone()  # [fixed]
        weights += torch.eye(weights.size(-1))  # harm
        weights /= weights.sum(-1, keepdim=True)  # harm
        self.maps.append(weights.mean(0))

    def result(self):
        total = torch.eye(self.maps[0].size(-1))
        for one in self.maps:
            total = one @ total
        self.maps.clear()
        return total


class Attention(nn.Module):
    def __init__(self, width, rollout):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.rollout = rollout

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.size(-1) ** 0.5
        weights = F.softmax(scores, dim=-1)  # saves
        mixed = weights @ self.v(x)  # saves
        self.rollout.add(weights)
        return x + mixed


class TinyViT(nn.Module):
    def __init__(self, rollout, patch=2, width=8, classes=2):
        super().__init__()
        self.patch = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.Sequential(Attention(width, rollout), nn.LayerNorm(width), Attention(width, rollout))
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return self.head(self.layers(x)[:, 0])


def main():
    torch.manual_seed(17)
    rollout = Rollout()
    model = TinyViT(rollout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(2):
        images = torch.rand(6, 1, 6, 6)
        labels = (images[:, 0, :3].sum((1, 2)) > images[:, 0, 3:].sum((1, 2))).long()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        focus = rollout.result()[0, 1:].max().item()
        print(f"step {step}: {loss.item():.4f}, focus {focus:.4f}")


if __name__ == "__main__":
    main()
