"""The carried state is detached and scaled after the backward of its chunk and before the next chunk uses it."""

# correct, oracle=clone
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, vocab=10, emb=5, hid=6, tags=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hid, batch_first=True, bidirectional=False)
        self.out = nn.Linear(hid, tags)

    def forward(self, ids, lengths, state=None):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        packed, state = self.lstm(packed, state)
        h, _ = pad_packed_sequence(packed, batch_first=True, total_length=ids.size(1))
        return self.out(h), state


def make():
    torch.manual_seed(88)
    ids = torch.randint(1, 10, (3, 12))
    tags = torch.randint(0, 3, (3, 12))
    for row, stop in enumerate((12, 10, 9)):
        ids[row, stop:] = 0
        tags[row, stop:] = -100
    return Tagger(), ids, tags


def run():
    model, ids, tags = make()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    state = None
    for start in range(0, 12, 4):
        x, y = ids[:, start : start + 4], tags[:, start : start + 4]
        lengths = (x != 0).sum(1)
        opt.zero_grad()
        logits, state = model(x, lengths, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        state = tuple(s.detach_() for s in state)
        state[0].mul_(0.9)  # leak the memory a little between chunks
    return {"emb": model.emb.weight.grad, "w_hh": model.lstm.weight_hh_l0.grad, "out": model.out.weight.grad}
