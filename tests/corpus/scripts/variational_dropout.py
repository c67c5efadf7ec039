"""A recurrent model with one dropout mask for all steps: a mask is drawn again in the memory that earlier steps have saved."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class LockedDropout(nn.Module):
    """One mask for all time steps of a layer; the memory is kept between calls."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.mask = None

    def draw(self, like):
        if self.mask is None or self.mask.shape != like.shape:
            self.mask = torch.empty_like(like)
        with torch.no_grad():
            self.mask.bernoulli_(1 - self.rate).div_(1 - self.rate)  # harm

    def forward(self, x):
        if not self.training:
            return x
        return x * self.mask  # [bug] saves
        return x * self.mask.clone()  # [fixed]


class Reader(nn.Module):
    def __init__(self, vocab=12, width=8, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cells = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))
        self.dropout = LockedDropout(0.2)
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens):
        x = self.embed(tokens)
        for cell in self.cells:
            state = torch.zeros(len(tokens), cell.hidden_size)
            self.dropout.draw(state)
            outputs = []
            for step in x.unbind(1):
                state = cell(self.dropout(step), state)
                outputs.append(state)
            x = torch.stack(outputs, dim=1)
        return self.out(x)


def counting(generator, count=4, length=6, vocab=12):
    start = torch.randint(vocab, (count, 1), generator=generator)
    return (start + torch.arange(length + 1)) % vocab


def main():
    torch.manual_seed(16)
    generator = torch.Generator().manual_seed(16)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        words = counting(generator)
        logits = model(words[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"step {step}: perplexity {loss.exp().item():.4f}")


if __name__ == "__main__":
    main()
