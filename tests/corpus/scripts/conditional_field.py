"""A conditional random field whose forward scores are rows of one tensor; right, since only sums are read from there."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.transition = nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.start = nn.Parameter(torch.zeros(tags))

    def partition(self, emissions):
        batch, length, tags = emissions.shape
        scores = torch.zeros(length, batch, tags)
        scores[0] = self.start + emissions[:, 0]
        for t in range(1, length):
            paths = scores[t - 1].unsqueeze(2) + self.transition
            scores[t] = paths.logsumexp(1) + emissions[:, t]
        return scores[-1].clone().logsumexp(1)

    def score(self, emissions, tags):
        picked = emissions.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1)
        picked += self.start[tags[:, 0]]
        picked += self.transition[tags[:, :-1], tags[:, 1:]].sum(1)
        return picked

    def forward(self, emissions, tags):
        return (self.partition(emissions) - self.score(emissions, tags)).mean()


class Tagger(nn.Module):
    def __init__(self, words=14, width=8, tags=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.emit, self.crf = nn.Linear(width, tags), CRF(tags)

    def forward(self, words, tags):
        hidden, _ = self.lstm(F.dropout(self.words(words), 0.1, self.training))
        return self.crf(self.emit(hidden), tags)


def sentences(generator, count=4, length=5):
    words = torch.randint(14, (count, length), generator=generator)
    tags = words % 3
    tags[:, 1:][words[:, :-1] > 10] = 2  # some words decide on the tag of the next
    return words, tags


def main():
    torch.manual_seed(101)
    generator = torch.Generator().manual_seed(101)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for step in range(3):
        loss = model(*sentences(generator))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
