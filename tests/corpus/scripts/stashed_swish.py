"""A custom Swish keeps its input on ctx without save_for_backward; a later layer scales that input in place."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class SwishFunction(torch.autograd.Function):
    """x * sigmoid(x), with the input kept for backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()  # saves
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        gate = torch.sigmoid(ctx.x)
        return gradient * gate * (1 + ctx.x * (1 - gate))


class Swish(nn.Module):
    def forward(self, x):
        return SwishFunction.apply(x)


class Block(nn.Module):
    """Two branches over one projection: an activated one, and a scaled linear one."""

    def __init__(self, width, scale):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.swish = Swish()
        self.merge = nn.Linear(2 * width, width)
        self.scale = scale

    def forward(self, x):
        h = self.project(x)
        active = self.swish(h)
        linear = h.mul_(self.scale)  # [bug] harm
        linear = h.mul(self.scale)  # [fixed]
        return x + self.merge(torch.cat([active, linear], dim=-1))


class Regressor(nn.Module):
    def __init__(self, inside=4, width=8, depth=2):
        super().__init__()
        self.stem = nn.Linear(inside, width)
        self.blocks = nn.Sequential(*(Block(width, 0.5) for _ in range(depth)))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.blocks(self.stem(x))).squeeze(-1)


def friedman(count, generator):
    x = torch.rand(count, 4, generator=generator)
    y = torch.sin(torch.pi * x[:, 0] * x[:, 1]) + 2 * (x[:, 2] - 0.5) ** 2 + x[:, 3]
    return x, y


def main():
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(4)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        x, y = friedman(12, generator)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
