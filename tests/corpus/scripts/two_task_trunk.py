"""Two tasks over one trunk, each with its own optimizer: the first step writes the trunk that the second loss still needs."""

# bug: raises-backward
# fixed: correct
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Batch:
    x: torch.Tensor
    kind: torch.Tensor
    amount: torch.Tensor


class TwoHeads(nn.Module):
    def __init__(self, inside=6, width=10):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inside, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.classify = nn.Linear(width, 3)
        self.amount = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        shared = self.trunk(x)  # saves
        return self.classify(shared), self.amount(shared).squeeze(1)


class Trainer:
    """The trunk is trained by the first task only; the second one trains its own head."""

    def __init__(self, model):
        self.model = model
        main = [*model.trunk.parameters(), *model.classify.parameters()]
        self.main_optimizer = torch.optim.Adam(main, lr=5e-3)
        self.side_optimizer = torch.optim.Adam(model.amount.parameters(), lr=5e-3)

    def step(self, batch):
        logits, amount = self.model(batch.x)
        main_loss = F.cross_entropy(logits, batch.kind)
        side_loss = F.huber_loss(amount, batch.amount)

        self.side_optimizer.zero_grad()  # [fixed]
        side_loss.backward(retain_graph=True)  # [fixed]
        self.main_optimizer.zero_grad()
        main_loss.backward(retain_graph=True)
        self.main_optimizer.step()  # harm

        self.side_optimizer.zero_grad()  # [bug]
        side_loss.backward()  # [bug]
        self.side_optimizer.step()
        return main_loss.item(), side_loss.item()


def make_batch(generator, count=8):
    x = torch.randn(count, 6, generator=generator)
    return Batch(x, x[:, :3].argmax(1), x.pow(2).sum(1).sqrt())


def main():
    torch.manual_seed(12)
    generator = torch.Generator().manual_seed(12)
    trainer = Trainer(TwoHeads())
    for step in range(3):
        main_loss, side_loss = trainer.step(make_batch(generator))
        print(f"step {step}: kind {main_loss:.4f} amount {side_loss:.4f}")


if __name__ == "__main__":
    main()
