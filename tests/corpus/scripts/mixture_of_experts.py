"""A mixture of experts: gates below the second largest are set to zero in the softmax's result."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, width, experts=4, chosen=2):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.chosen = chosen
        self.register_buffer("load", torch.zeros(experts))

    def forward(self, x):
        gates = F.softmax(self.router(x), dim=-1)  # saves
        smallest = gates.topk(self.chosen, dim=-1).values[:, -1:]
        balance = gates.mean(0)
        mask = gates < smallest
        gates[mask] = 0.0  # [bug] harm
        gates = torch.where(mask, 0.0, gates)  # [fixed]
        gates = gates / gates.sum(-1, keepdim=True)
        with torch.no_grad():
            self.load.mul_(0.9).add_(0.1 * (gates > 0).float().mean(0))
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = gates[:, number].nonzero().squeeze(1)
            if len(rows):
                out.index_add_(0, rows, gates[rows, number, None] * expert(x[rows]))
        return out, (balance * self.load).sum() * len(self.experts)


class Model(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.stem, self.mixture, self.out = nn.Linear(5, width), Mixture(width), nn.Linear(width, 3)

    def forward(self, x):
        h = torch.tanh(self.stem(x))
        mixed, balance = self.mixture(h)
        return self.out(h + mixed), balance


def main():
    torch.manual_seed(6)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(24, 5)
    labels = x[:, :3].abs().argmax(1)
    for step, (rows, goals) in enumerate(zip(x.split(8), labels.split(8))):
        logits, balance = model(rows)
        loss = F.cross_entropy(logits, goals) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        load = [round(share, 3) for share in model.mixture.load.tolist()]
        print(f"step {step}: {loss.item():.4f} load {load}")


if __name__ == "__main__":
    main()
