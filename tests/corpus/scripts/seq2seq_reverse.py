"""A sequence-to-sequence model: attention on padding is set to zero in the softmax's own result."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn

PAD, VOCAB, WIDTH = 0, 9, 10


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, source):
        return self.gru(self.embedding(source))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, query, memory, padding):
        scores = torch.bmm(memory, self.project(query).unsqueeze(2)).squeeze(2)
        weights = F.softmax(scores, dim=1)  # saves
        weights = weights.clone()  # [fixed]
        weights[padding] = 0.0  # [bug] harm
        weights[padding] = 0.0  # [fixed]
        weights = weights / weights.sum(1, keepdim=True)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.attention = Attention()
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, target, state, memory, padding):
        logits = []
        token = torch.full((target.size(0),), PAD)
        for t in range(target.size(1)):
            context = self.attention(state, memory, padding)
            state = self.cell(torch.cat([self.embedding(token), context], dim=1), state)
            logits.append(self.out(state))
            token = target[:, t]  # teacher forcing
        return torch.stack(logits, 1)


def reversal(generator, count=4, longest=5):
    source = torch.zeros(count, longest, dtype=torch.long)
    target = torch.zeros(count, longest, dtype=torch.long)
    for row in range(count):
        length = int(torch.randint(2, longest + 1, (1,), generator=generator))
        word = torch.randint(1, VOCAB, (length,), generator=generator)
        source[row, :length] = word
        target[row, :length] = word.flip(0)
    return source, target


def main():
    torch.manual_seed(17)
    generator = torch.Generator().manual_seed(17)
    encoder, decoder = Encoder(), Decoder()
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for step in range(2):
        source, target = reversal(generator)
        memory, state = encoder(source)
        logits = decoder(target, state[0], memory, source == PAD)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
