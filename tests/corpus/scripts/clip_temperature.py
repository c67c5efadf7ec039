"""Contrastive pictures and captions: the learned temperature is limited through .data while the loss waits for backward."""

# bug: silently-wrong
# fixed: correct
import math

import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, inside, width=6):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inside, 12), nn.ReLU(), nn.Linear(12, width))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.pictures, self.captions = Tower(8), Tower(5)
        self.scale = nn.Parameter(torch.tensor(1 / 0.07))

    def forward(self, pictures, captions):
        similarity = self.pictures(pictures) @ self.captions(captions).t()
        return similarity * self.scale  # saves

    def limit(self, largest):
        self.scale.data.clamp_(max=largest)  # harm


def symmetric_loss(logits):
    goal = torch.arange(len(logits))
    return (F.cross_entropy(logits, goal) + F.cross_entropy(logits.t(), goal)) / 2


class Pairs:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.of_picture = torch.randn(3, 8, generator=self.generator)
        self.of_caption = torch.randn(3, 5, generator=self.generator)

    def batch(self, count):
        topic = torch.randn(count, 3, generator=self.generator)
        return topic @ self.of_picture, topic @ self.of_caption


def recall(logits):
    return (logits.argmax(1) == torch.arange(len(logits))).float().mean().item()


def main():
    torch.manual_seed(18)
    model, pairs = Clip(), Pairs(18)
    no_decay = [model.scale]
    decay = [p for p in model.parameters() if p is not model.scale]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0, "lr": 0.5}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    for step in range(3):
        logits = model(*pairs.batch(6))
        loss = symmetric_loss(logits)
        optimizer.zero_grad()
        model.limit(10.0 - step)  # [bug]
        loss.backward()
        model.limit(10.0 - step)  # [fixed]
        optimizer.step()
        print(
            f"step {step}: {loss.item():.4f}, recall {recall(logits):.2f}, log scale {math.log(model.scale.item()):.3f}"
        )


if __name__ == "__main__":
    main()
