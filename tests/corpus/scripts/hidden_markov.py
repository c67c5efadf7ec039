"""A hidden Markov model trained by gradient: the forward variables are rows of one tensor, each made from the row before."""

# bug: raises-backward
# fixed: correct
import torch
from torch import nn


class HiddenMarkov(nn.Module):
    def __init__(self, states, symbols):
        super().__init__()
        self.start = nn.Parameter(torch.randn(states) * 0.1)
        self.transition = nn.Parameter(torch.randn(states, states) * 0.1)
        self.emission = nn.Parameter(torch.randn(states, symbols) * 0.1)

    def likelihood(self, sequence):
        start, transition = self.start.softmax(0), self.transition.softmax(1)
        emission = self.emission.softmax(1)
        alpha = torch.zeros(len(sequence), len(start))
        alpha[0] = start * emission[:, sequence[0]]
        for t in range(1, len(sequence)):
            before = alpha[t - 1]  # [bug]
            before = alpha[t - 1].clone()  # [fixed]
            alpha[t] = (before @ transition) * emission[:, sequence[t]]  # harm saves
        return alpha[-1].sum().log()

    def forward(self, sequences):
        return torch.stack([self.likelihood(sequence) for sequence in sequences]).mean()


class Weather:
    """Sunny and rainy weeks; what is seen is an umbrella, a coat or a hat."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.stay = torch.tensor([0.8, 0.7])
        self.seen = torch.tensor([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1]])

    def week(self, days=5):
        state, found = 0, []
        for _ in range(days):
            found.append(torch.multinomial(self.seen[state], 1, generator=self.generator).item())
            if torch.rand(1, generator=self.generator).item() > self.stay[state]:
                state = 1 - state
        return torch.tensor(found)


def sharpness(model):
    with torch.no_grad():
        return model.emission.softmax(1).max(1).values.mean().item()


def main():
    torch.manual_seed(13)
    weather, model = Weather(13), HiddenMarkov(2, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-2)
    for step in range(3):
        loss = -model([weather.week() for _ in range(3)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}, sharpness {sharpness(model):.4f}")


if __name__ == "__main__":
    main()
