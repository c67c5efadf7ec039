"""A decoder trained token by token: keys and values go into preallocated caches that attention reads as slices."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, LENGTH, BATCH = 11, 8, 5, 3


class CachedAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.scale = width**-0.5
        self.reset(0, 0)

    def reset(self, batch, length):
        self.keys = torch.zeros(batch, length, self.key.out_features)
        self.values = torch.zeros(batch, length, self.value.out_features)
        self.used = 0

    def forward(self, x):
        at = self.used
        self.keys[:, at] = self.key(x)  # harm
        self.values[:, at] = self.value(x)  # harm
        self.used += 1
        keys, values = self.keys[:, : self.used], self.values[:, : self.used]  # [bug]
        keys, values = self.keys[:, : self.used].clone(), self.values[:, : self.used].clone()  # [fixed]
        scores = torch.einsum("bd,btd->bt", self.query(x), keys) * self.scale  # saves
        return torch.einsum("bt,btd->bd", scores.softmax(-1), values)  # saves


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.attention = CachedAttention(WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def step(self, token):
        x = self.embed(token)
        return self.head(self.norm(x + self.attention(x)))

    def loss(self, sequence):
        batch, length = sequence.shape
        self.attention.reset(batch, length)
        losses = []
        for t in range(length - 1):
            logits = self.step(sequence[:, t])
            losses.append(F.cross_entropy(logits, sequence[:, t + 1]))
        return torch.stack(losses).mean()


def sequences(generator):
    start = torch.randint(VOCAB, (BATCH, 1), generator=generator)
    stride = torch.randint(1, 4, (BATCH, 1), generator=generator)
    return (start + stride * torch.arange(LENGTH)) % VOCAB


def main():
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        loss = model.loss(sequences(generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


main()
