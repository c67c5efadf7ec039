"""Dictionary learning by L-BFGS: the closure normalises the atoms between the loss and its backward pass."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class Dictionary(nn.Module):
    """Signals as sparse sums of unit atoms."""

    def __init__(self, atoms, length, signals):
        super().__init__()
        self.atoms = nn.Parameter(torch.randn(atoms, length))
        self.codes = nn.Parameter(0.1 * torch.randn(signals, atoms))
        self.normalise()

    @torch.no_grad()
    def normalise(self):
        self.atoms.div_(self.atoms.norm(dim=1, keepdim=True).clamp_min(1e-6))  # harm

    def forward(self):
        return self.codes @ self.atoms  # saves


def smooth_l1(codes, width=0.01):
    return (codes.pow(2) + width**2).sqrt().sum()


def make_signals(count, length, generator):
    time = torch.linspace(0, 1, length)
    frequency = 1 + 4 * torch.rand(count, 1, generator=generator)
    return torch.sin(2 * torch.pi * frequency * time) + 0.01 * torch.randn(count, length, generator=generator)


class Fit:
    def __init__(self, signals, atoms=4, penalty=1e-3):
        self.signals, self.penalty = signals, penalty
        self.model = Dictionary(atoms, signals.size(1), signals.size(0))
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.3, max_iter=3, history_size=4)
        self.evaluations = 0

    def objective(self):
        residual = self.model() - self.signals
        return residual.pow(2).mean() + self.penalty * smooth_l1(self.model.codes)

    def closure(self):
        self.optimizer.zero_grad()
        loss = self.objective()
        self.model.normalise()  # [bug]
        loss.backward()
        self.model.normalise()  # [fixed]
        self.evaluations += 1
        return loss

    def run(self, rounds):
        for number in range(rounds):
            loss = self.optimizer.step(self.closure)
            print(f"round {number}: loss {loss.item():.6f} after {self.evaluations} evaluations")


def main():
    torch.manual_seed(4)
    signals = make_signals(6, 10, torch.Generator().manual_seed(4))
    Fit(signals).run(2)


if __name__ == "__main__":
    main()
