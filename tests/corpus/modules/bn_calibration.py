"""Running statistics are refreshed after the eval-mode forward whose BatchNorm has saved them."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn


class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 5)
        self.bn = nn.BatchNorm1d(5, momentum=0.5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.bn(self.fc1(x))))  # harm saves


def frozen_forward(model, x):
    model.eval()
    return model(x)


@torch.no_grad()
def refresh_statistics(model, batches):
    model.train()
    for b in batches:
        model(b)
    model.eval()


def make():
    torch.manual_seed(1)
    src, lbl = torch.randn(8, 4), torch.randint(0, 3, (8,))
    tgt = [torch.randn(8, 4) * 4 + 2 for _ in range(3)]
    return Adapter(), src, lbl, tgt


def run():
    model, src, lbl, tgt = make()
    logits = frozen_forward(model, src)
    refresh_statistics(model, tgt)
    loss = nn.functional.cross_entropy(logits, lbl)
    loss.backward()
    return {"fc1": model.fc1.weight.grad, "gamma": model.bn.weight.grad}
