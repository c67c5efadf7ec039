"""Pruning while training: a callback zeroes small weights through .data after the forward pass and before backward."""

# bug: silently-wrong
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Pruner:
    """Zeroes the smallest weights of each linear layer."""

    def __init__(self, share):
        self.share = share
        self.masks = {}

    def decide(self, model):
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                count = int(self.share * parameter.numel())
                limit = parameter.detach().abs().flatten().kthvalue(count).values
                self.masks[name] = parameter.detach().abs() > limit

    def apply(self, model):
        for name, parameter in model.named_parameters():
            if name in self.masks:
                parameter.data.mul_(self.masks[name])  # harm

    def sparsity(self):
        kept = sum(mask.sum().item() for mask in self.masks.values())
        return 1 - kept / sum(mask.numel() for mask in self.masks.values())


class Callbacks:
    def __init__(self, *functions):
        self.functions = functions

    def __call__(self, model):
        for function in self.functions:
            function(model)


class Autoencoder(nn.Module):
    def __init__(self, size=8, code=3):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(size, 10), nn.ReLU(), nn.Linear(10, code))
        self.decode = nn.Sequential(nn.Linear(code, 10), nn.ReLU(), nn.Linear(10, size))

    def forward(self, x):
        return self.decode(self.encode(x))  # saves


def train(model, data, callbacks, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        total = 0.0
        for x in data.split(6):
            loss = F.mse_loss(model(x), x)
            optimizer.zero_grad()
            callbacks(model)  # [bug]
            loss.backward()
            callbacks(model)  # [fixed]
            optimizer.step()
            total += loss.item()
        yield epoch, total


def main():
    torch.manual_seed(9)
    model, pruner = Autoencoder(), Pruner(0.4)
    data = torch.randn(18, 3) @ torch.randn(3, 8)
    pruner.decide(model)
    for epoch, total in train(model, data, Callbacks(pruner.apply), epochs=2):
        print(f"epoch {epoch}: {total:.4f}, sparsity {pruner.sparsity():.2f}")


if __name__ == "__main__":
    main()
