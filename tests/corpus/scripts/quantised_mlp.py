"""Quantisation-aware training with a straight-through estimator and weights that are swapped and put back; all is right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, low, high):
        ctx.save_for_backward((x >= low) & (x <= high))
        return torch.round(x / step).mul_(step).clamp_(low, high)

    @staticmethod
    def backward(ctx, gradient):
        (inside,) = ctx.saved_tensors
        return gradient * inside, None, None, None


class Observer(nn.Module):
    def __init__(self, bits=4, momentum=0.2):
        super().__init__()
        self.bits, self.momentum = bits, momentum
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                seen = x.abs().max()
                self.largest.mul_(1 - self.momentum).add_(self.momentum * seen)
                self.largest.clamp_(min=1e-3)
        limit = self.largest.item()
        return Round.apply(x, 2 * limit / (2**self.bits - 1), -limit, limit)


class QuantisedLinear(nn.Linear):
    def __init__(self, inside, outside):
        super().__init__(inside, outside)
        self.of_input, self.of_weight = Observer(), Observer(bits=6, momentum=1.0)

    def forward(self, x):
        return F.linear(self.of_input(x), self.of_weight(self.weight), self.bias)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = QuantisedLinear(5, 12), QuantisedLinear(12, 3)

    def forward(self, x):
        return self.second(F.relu_(self.first(x)))


@torch.no_grad()
def accuracy_of_rounded(model, x, labels):
    """Measures with rounded weights, and puts the trained ones back."""
    kept = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        parameter.copy_((parameter * 16).round_().div_(16))
    right = (model(x).argmax(1) == labels).float().mean().item()
    for parameter, old in zip(model.parameters(), kept):
        parameter.copy_(old)
    return right


def main():
    torch.manual_seed(73)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(15, 5)
    labels = x[:, :3].argmax(1)
    for epoch in range(3):
        for rows, goals in zip(x.split(5), labels.split(5)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(rows), goals)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}, rounded {accuracy_of_rounded(model.eval(), x, labels):.2f}")
        model.train()


main()
