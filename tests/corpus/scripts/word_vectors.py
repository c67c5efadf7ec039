"""Skip-gram with negative samples and steps by hand: parameters are written under no_grad after each backward pass."""

# correct
import random

import torch
import torch.nn.functional as F

TEXT = """the cat sat on the mat the dog sat on the log
the cat saw the dog and the dog saw the cat""".split()


class SkipGram:
    def __init__(self, words, width, generator):
        self.inner = torch.randn(words, width, generator=generator).mul_(0.1).requires_grad_()
        self.outer = torch.zeros(words, width).requires_grad_()

    def parameters(self):
        return [self.inner, self.outer]

    def loss(self, centre, context, negatives):
        middle = self.inner[centre]
        positive = (middle * self.outer[context]).sum(1)
        negative = torch.bmm(self.outer[negatives], middle.unsqueeze(2)).squeeze(2)
        loss = -F.logsigmoid(positive)
        loss -= F.logsigmoid(-negative).sum(1)
        return loss.mean()


class Momentum:
    def __init__(self, parameters, lr, mu):
        self.parameters, self.lr, self.mu = parameters, lr, mu
        self.velocity = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self):
        for parameter, velocity in zip(self.parameters, self.velocity):
            parameter.grad.clamp_(-1, 1)
            velocity.mul_(self.mu).add_(parameter.grad)
            parameter -= self.lr * velocity

    def zero_grad(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()


def pairs(indices, window):
    for place, centre in enumerate(indices):
        for other in range(max(0, place - window), min(len(indices), place + window + 1)):
            if other != place:
                yield centre, indices[other]


def main():
    rng = random.Random(67)
    generator = torch.Generator().manual_seed(67)
    vocabulary = {word: number for number, word in enumerate(sorted(set(TEXT)))}
    data = list(pairs([vocabulary[word] for word in TEXT], 2))
    model = SkipGram(len(vocabulary), 6, generator)
    optimizer = Momentum(model.parameters(), lr=0.3, mu=0.8)
    for step in range(4):
        batch = rng.sample(data, 12)
        centre, context = torch.tensor(batch).t()
        negatives = torch.randint(len(vocabulary), (12, 3), generator=generator)
        optimizer.zero_grad()
        loss = model.loss(centre, context, negatives)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            norms = model.inner.norm(dim=1, keepdim=True).clamp_(min=1.0)
            model.inner.div_(norms)
        print(f"step {step}: {loss.item():.5f}")


main()
