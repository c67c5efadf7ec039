"""Self-distillation through a frozen teacher head whose weights are averaged through .data before the backward pass."""

# bug: silently-wrong
# fixed: correct
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, width), nn.GELU(), nn.Linear(width, width))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.body(x))


class Average:
    """An exponential moving average of a model's weights."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model)
        self.decay = decay
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)

    def update(self, student):
        for mine, theirs in zip(self.model.parameters(), student.parameters()):
            mine.data.mul_(self.decay).add_(theirs.data, alpha=1 - self.decay)  # harm


def views(x, generator):
    noise = torch.randn(x.shape, generator=generator)
    return x + 0.1 * noise, x - 0.1 * noise


class Trainer:
    def __init__(self):
        torch.manual_seed(12)
        self.student = Encoder(8)
        self.teacher = Average(self.student, decay=0.6)
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        self.generator = torch.Generator().manual_seed(12)

    def loss(self, x):
        one, two = views(x, self.generator)
        features = self.student.body(one)
        logits = self.teacher.model.head(features)  # saves
        with torch.no_grad():
            target = F.softmax(self.teacher.model(two) / 0.5, dim=-1)
        agreement = F.cross_entropy(logits, target)
        return agreement + 0.1 * self.student.head(features).pow(2).mean()

    def step(self, x):
        loss = self.loss(x)
        self.optimizer.zero_grad()
        self.teacher.update(self.student)  # [bug]
        loss.backward()
        self.teacher.update(self.student)  # [fixed]
        self.optimizer.step()
        return loss.item()


def main():
    trainer = Trainer()
    data = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
    for number, x in enumerate(data.split(8)):
        print(f"batch {number}: {trainer.step(x):.5f}")


main()
