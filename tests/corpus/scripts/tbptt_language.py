"""A recurrent language model that carries its hidden state from window to window with the whole history on it."""

# bug: raises-backward
# fixed: correct, effect=changes
# arguments: --window 4 --epochs 1
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class RecurrentModel(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.input = nn.Linear(width, width)
        self.recurrent = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, vocab)

    def start(self, batch):
        return torch.zeros(batch, self.recurrent.in_features)

    def forward(self, tokens, hidden):
        logits = []
        for t in range(tokens.size(1)):
            hidden = torch.tanh(self.input(self.embedding(tokens[:, t])) + self.recurrent(hidden))  # saves
            logits.append(self.output(hidden))
        return torch.stack(logits, dim=1), hidden


def corpus(vocab, batch, length):
    generator = torch.Generator().manual_seed(31)
    steps = torch.randint(1, 3, (batch, length), generator=generator)
    return steps.cumsum(1) % vocab


def windows(data, size):
    for start in range(0, data.size(1) - 1, size):
        stop = min(start + size, data.size(1) - 1)
        yield data[:, start:stop], data[:, start + 1 : stop + 1]


def train_epoch(model, optimizer, data, window):
    hidden = model.start(data.size(0))
    losses = []
    for tokens, targets in windows(data, window):
        hidden = hidden.detach()  # [fixed]
        logits, hidden = model(tokens, hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()  # harm
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description="Trains on a toy corpus.")
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(31)
    model = RecurrentModel(7, options.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    data = corpus(7, batch=3, length=13)
    for epoch in range(options.epochs):
        print(epoch, [round(loss, 4) for loss in train_epoch(model, optimizer, data, options.window)])


if __name__ == "__main__":
    main()
