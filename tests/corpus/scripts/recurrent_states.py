"""A recurrent classifier that writes each state into a preallocated tensor and reads the state before from there."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Recurrence(nn.Module):
    def __init__(self, inside, width):
        super().__init__()
        self.width = width
        self.of_input = nn.Linear(inside, width)
        self.of_state = nn.Linear(width, width, bias=False)

    def cell(self, x, state):
        return torch.tanh(self.of_input(x) + self.of_state(state))  # saves

    def forward(self, x):
        batch, length, _ = x.shape
        states = torch.zeros(length + 1, batch, self.width)  # [bug]
        states = [torch.zeros(batch, self.width)]  # [fixed]
        for t in range(length):
            states[t + 1] = self.cell(x[:, t], states[t])  # [bug] harm
            states.append(self.cell(x[:, t], states[t]))  # [fixed]
        return states[1:]  # [bug]
        return torch.stack(states[1:])  # [fixed]


class Classifier(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.recurrence = Recurrence(2, 8)
        self.out = nn.Linear(8, classes)

    def forward(self, x):
        states = self.recurrence(x)
        return self.out(states.mean(0) + states[-1])


class Spirals:
    """Walks that turn left or right."""

    def __init__(self, seed, length=5):
        self.generator, self.length = torch.Generator().manual_seed(seed), length

    def batch(self, count):
        labels = torch.randint(2, (count,), generator=self.generator)
        turn = (labels * 2.0 - 1)[:, None] * 0.4
        angle = torch.rand(count, 1, generator=self.generator) * 6 + turn * torch.arange(self.length)
        steps = torch.stack([angle.cos(), angle.sin()], dim=-1)
        steps += 0.1 * torch.randn(steps.shape, generator=self.generator)
        return steps, labels


def main():
    torch.manual_seed(5)
    model, data = Classifier(), Spirals(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    history = []
    for _ in range(3):
        x, labels = data.batch(6)
        logits = model(x)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print("losses", [round(loss, 4) for loss in history])


if __name__ == "__main__":
    main()
