"""A trainer with checkpoints, early stopping, weights restored and class weights that change; right, since all comes in order."""

# correct
import copy
import io

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, inside=5, width=12, classes=3):
        super().__init__()
        self.norm = nn.BatchNorm1d(inside)
        self.layers = nn.Sequential(
            nn.Linear(inside, width), nn.LeakyReLU(0.1, inplace=True), nn.Linear(width, classes)
        )

    def forward(self, x):
        return self.layers(self.norm(x))


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.waited, self.state = patience, float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.waited, self.state = value, 0, copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience


class Trainer:
    def __init__(self, model, lr=0.1):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.class_weights = torch.ones(3)

    def epoch(self, x, y, batch=8):
        self.model.train()
        wrong = torch.zeros(3)
        for rows in torch.randperm(len(x)).split(batch):
            logits = self.model(x[rows])
            loss = F.cross_entropy(logits, y[rows], weight=self.class_weights)
            self.optimizer.zero_grad(set_to_none=False)
            loss.backward()
            self.optimizer.step()
            wrong.index_add_(0, y[rows], (logits.argmax(1) != y[rows]).float())
        self.scheduler.step()
        self.class_weights.mul_(0.5).add_(0.5 * (1 + wrong / wrong.sum().clamp(min=1)))
        return loss.item()

    @torch.no_grad()
    def evaluate(self, x, y):
        self.model.eval()
        return F.cross_entropy(self.model(x), y).item()

    def save(self):
        file = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        return file

    def load(self, file):
        file.seek(0)
        state = torch.load(file)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def main():
    torch.manual_seed(109)
    x = torch.randn(32, 5)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    trainer, stopping = Trainer(Net()), EarlyStopping(patience=1)
    for number in range(3):
        loss = trainer.epoch(x[:24], y[:24])
        value = trainer.evaluate(x[24:], y[24:])
        print(f"epoch {number}: {loss:.4f} held out {value:.4f}")
        kept = trainer.save()
        if stopping(value, trainer.model):
            break
    trainer.load(kept)
    trainer.model.load_state_dict(stopping.state)
    print(f"best {trainer.evaluate(x[24:], y[24:]):.4f}")


main()
