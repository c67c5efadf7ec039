"""Padding is overwritten in place in the output of pad_packed_sequence, which nobody has saved yet."""

# correct, oracle=clone
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence as pack, pad_packed_sequence as unpack, pad_sequence


class Tagger(nn.Module):
    PAD = 0

    def __init__(self, vocab, d, tags):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=self.PAD)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, tags)

    def forward(self, ids, lens):
        e = self.emb(ids)
        e[ids == self.PAD] = 0.0
        out, hn = self.rnn(pack(e, lens, batch_first=True, enforce_sorted=False))
        out, _ = unpack(out, batch_first=True)
        pad = torch.arange(out.size(1)) >= lens[:, None]
        out[pad] = -1.0
        out += hn[-1].unsqueeze(1)
        return self.head(out), ~pad


def make():
    torch.manual_seed(3)
    sents = [torch.randint(1, 9, (n,)) for n in (3, 5, 2)]
    lens = torch.tensor([len(s) for s in sents])
    ids = pad_sequence(sents, batch_first=True)
    gold = torch.randint(0, 4, ids.shape)
    return Tagger(9, 3, 4), ids, lens, gold


def run():
    model, ids, lens, gold = make()
    logits, keep = model(ids, lens)
    loss = nn.functional.cross_entropy(logits[keep], gold[keep])
    loss.backward()
    return {"emb": model.emb.weight.grad, "w_hh": model.rnn.weight_hh_l0.grad}
