"""A quantiser's range moves in place, but the graph has saved only a fresh scale; the straight-through rounding is intended."""

# correct
import torch
import torch.nn as nn
import torch.nn.functional as F


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


class FakeQuant(nn.Module):
    def __init__(self, bits=4, momentum=0.1):
        super().__init__()
        self.levels = 2**bits - 1
        self.momentum = momentum
        self.register_buffer("lo", torch.tensor(-1.0))
        self.register_buffer("hi", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.lo.lerp_(x.min(), self.momentum)
                self.hi.lerp_(x.max(), self.momentum)
        scale = (self.hi - self.lo) / self.levels
        return RoundSTE.apply(x / scale) * scale


class QuantMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(6, 3)
        self.act_q = FakeQuant()

    def forward(self, x):
        h = self.act_q(torch.tanh(self.fc1(x)))
        return self.act_q(self.fc2(h))  # same observer again


def make():
    torch.manual_seed(21)
    return QuantMLP(), torch.randn(12, 4), torch.randint(0, 3, (12,))


def run():
    model, x, y = make()
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        optim.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if epoch < 2:
            optim.step()
    return {"fc1": model.fc1.weight.grad, "fc2": model.fc2.weight.grad}


# truth
def truth():
    RoundSTE.apply = staticmethod(lambda x: x + (x.round() - x).detach())
    return run()
