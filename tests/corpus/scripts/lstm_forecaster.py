"""An LSTM that forecasts a series: outputs go into a preallocated tensor, the carried state is detached; all is right."""

# correct
# arguments: --horizon 3
import argparse

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, width, horizon):
        super().__init__()
        self.cell = nn.LSTMCell(1, width)
        self.read = nn.Linear(width, 1)
        self.horizon = horizon

    def forward(self, series, state):
        batch, length = series.shape
        outputs = torch.empty(batch, length + self.horizon)
        value = series[:, :1]
        for t in range(length + self.horizon):
            if t < length:
                value = series[:, t : t + 1]
            state = self.cell(value, state)
            value = self.read(state[0])
            outputs[:, t] = value.squeeze(1)
        return outputs, state


class Scaler:
    """Brings a series to mean 0 and deviation 1, in place."""

    def fit(self, series):
        self.mean, self.deviation = series.mean(), series.std()
        return self

    def transform_(self, series):
        return series.sub_(self.mean).div_(self.deviation)


def make_series(batch, length, seed):
    generator = torch.Generator().manual_seed(seed)
    phase = 6.28 * torch.rand(batch, 1, generator=generator)
    series = torch.sin(0.5 * torch.arange(length) + phase) * 3 + 5
    series += 0.1 * torch.randn(series.shape, generator=generator)
    return series


def train(options):
    series = make_series(4, 16, options.seed)
    Scaler().fit(series).transform_(series)
    model = Forecaster(options.width, options.horizon)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    state = (torch.zeros(4, options.width), torch.zeros(4, options.width))
    for start in range(0, 12, 4):
        outputs, state = model(series[:, start : start + 4], state)
        goal = series[:, start + 1 : start + 5 + options.horizon]
        size = min(outputs.size(1), goal.size(1))
        loss = (outputs[:, :size] - goal[:, :size]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = tuple(part.detach() for part in state)
        for part in state:
            part[0].zero_()  # a new series begins in the first row
        print(f"from {start}: {loss.item():.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=1)
    parser.add_argument("--seed", type=int, default=71)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    train(arguments)
