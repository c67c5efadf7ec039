"""Momentum contrast: the queue of negatives takes the new keys before the loss, which has read it, goes backward."""

# bug: raises-backward
# fixed: correct
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Queue:
    def __init__(self, size, width, generator):
        self.entries = F.normalize(torch.randn(size, width, generator=generator), dim=1)
        self.pointer = 0

    def put(self, keys):
        stop = self.pointer + len(keys)
        self.entries[self.pointer : stop] = keys  # harm
        self.pointer = stop % len(self.entries)


class MoCo(nn.Module):
    def __init__(self, width=6, size=12, momentum=0.9, temperature=0.2):
        super().__init__()
        self.query_encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, width))
        self.key_encoder = copy.deepcopy(self.query_encoder).requires_grad_(False)
        self.queue = Queue(size, width, torch.Generator().manual_seed(3))
        self.momentum, self.temperature = momentum, temperature

    @torch.no_grad()
    def follow(self):
        for key, query in zip(self.key_encoder.parameters(), self.query_encoder.parameters()):
            key.lerp_(query, 1 - self.momentum)

    def forward(self, one, two):
        query = F.normalize(self.query_encoder(one), dim=1)
        with torch.no_grad():
            self.follow()
            key = F.normalize(self.key_encoder(two), dim=1)
        positive = (query * key).sum(1, keepdim=True)
        negative = query @ self.queue.entries.t()  # [bug] saves
        negative = query @ self.queue.entries.t().clone()  # [fixed]
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        self.queue.put(key)
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def augment(x, generator):
    mask = torch.rand(x.shape, generator=generator) > 0.2
    return x * mask + 0.05 * torch.randn(x.shape, generator=generator)


class Run:
    def __init__(self, batch=4):
        torch.manual_seed(19)
        self.generator = torch.Generator().manual_seed(19)
        self.model, self.batch = MoCo(), batch
        self.optimizer = torch.optim.SGD(self.model.query_encoder.parameters(), lr=0.05, momentum=0.9)

    def step(self):
        x = torch.randn(self.batch, 8, generator=self.generator)
        loss = self.model(augment(x, self.generator), augment(x, self.generator))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    run = Run()
    for number in range(4):
        print(f"{number} {run.step():.5f}")
