"""The next token is assigned into a buffer whose columns the embedding has saved as its indices."""

# raises-backward
import torch
from torch import nn


class TinyDecoder(nn.Module):
    def __init__(self, vocab=9, d=6):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.gru = nn.GRUCell(d, d)
        self.out = nn.Linear(d, vocab)

    def step(self, ids, h):
        h = self.gru(self.tok(ids), h)  # saves
        return self.out(h).log_softmax(-1), h


def self_critical_rollout(dec, h, max_len, bos=0):
    """sample a sequence and keep log p, REINFORCE style"""
    B = h.size(0)
    tokens = torch.full((B, max_len + 1), bos)
    logps = []
    for t in range(max_len):
        lp, h = dec.step(tokens[:, t], h)
        nxt = lp.detach().argmax(-1)
        logps.append(lp.gather(1, nxt.unsqueeze(1)).squeeze(1))
        tokens[:, t + 1] = nxt  # harm
    return tokens, torch.stack(logps, 1)


def make():
    torch.manual_seed(4)
    return TinyDecoder(), torch.randn(3, 6)


def run():
    dec, h0 = make()
    tokens, logps = self_critical_rollout(dec, h0, max_len=4)
    reward = (tokens[:, 1:] % 2 == 0).float().mean(1) - 0.5
    loss = -(reward * logps.sum(1)).mean()
    loss.backward()
    return {"emb": dec.tok.weight.grad, "out": dec.out.weight.grad}
