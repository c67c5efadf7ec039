"""A small speech recogniser with CTC: features are normalised and masked in place before the network reads them; right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class SpecAugment:
    """Hides a band of frequencies and a stretch of time."""

    def __init__(self, generator, band=2, stretch=2):
        self.generator, self.band, self.stretch = generator, band, stretch

    def __call__(self, x):
        x = x.clone()
        for row in x:
            low = int(torch.randint(row.size(1) - self.band, (1,), generator=self.generator))
            row[:, low : low + self.band] = 0.0
            start = int(torch.randint(row.size(0) - self.stretch, (1,), generator=self.generator))
            row[start : start + self.stretch].zero_()
        return x


def normalise_(x):
    x -= x.mean(dim=(1, 2), keepdim=True)
    x /= x.std(dim=(1, 2), keepdim=True) + 1e-5
    return x


class Recogniser(nn.Module):
    def __init__(self, bands=8, width=10, letters=5):
        super().__init__()
        self.conv = nn.Conv1d(bands, width, 3, padding=1)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, letters)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        h = F.hardtanh_(h, 0.0, 6.0)
        h, _ = self.gru(h)
        logits = self.out(h)
        logits[..., 0] -= 0.5  # fewer blanks
        return logits.log_softmax(-1)


def utterances(generator, count=3, frames=12, bands=8):
    x = 0.2 * torch.randn(count, frames, bands, generator=generator)
    words = torch.randint(1, 5, (count, 3), generator=generator)
    for row, word in zip(x, words):
        for place, letter in enumerate(word.tolist()):
            row[4 * place : 4 * place + 3, 2 * (letter - 1) : 2 * letter] += 1.0
    return x, words


def main():
    torch.manual_seed(113)
    generator = torch.Generator().manual_seed(113)
    model, augment = Recogniser(), SpecAugment(generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    frames, lengths = torch.full((3,), 12), torch.full((3,), 3)
    for step in range(3):
        x, words = utterances(generator)
        log_probs = model(normalise_(augment(x)))
        loss = F.ctc_loss(log_probs.transpose(0, 1), words, frames, lengths, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
