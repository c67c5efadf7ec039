"""The loop."""

import torch
import torch.nn.functional as F


class Engine:
    """Trains a model on pictures that it makes."""

    def __init__(self, make, lr, seed):
        torch.manual_seed(seed)
        self.model = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.images = torch.rand(12, 1, 6, 6)
        self.labels = (self.images[:, 0, :3].mean((1, 2)) > self.images[:, 0, 3:].mean((1, 2))).long()

    def epoch(self):
        losses = []
        for images, labels in zip(self.images.split(6), self.labels.split(6)):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)
