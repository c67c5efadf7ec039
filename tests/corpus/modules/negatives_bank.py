"""Negatives are stacked in inference mode, and the product with a tensor that needs grad cannot save them."""

# raises-forward
import torch
import torch.nn as nn
import torch.nn.functional as F


class NegativeBank:
    def __init__(self, size, dim):
        self.size, self.dim = size, dim
        self.rows = []

    @torch.inference_mode()
    def extend(self, encoder, batches):
        for b in batches:
            self.rows += list(F.normalize(encoder(b), dim=-1))
        del self.rows[: -self.size]

    def matrix(self):
        with torch.inference_mode():
            return torch.stack(self.rows)


def info_nce(anchor, positive, bank, t):
    pos = (anchor * positive).sum(-1, keepdim=True)
    negatives = bank.matrix()
    neg = anchor @ negatives.t()
    logits = torch.cat([pos, neg], dim=1) / t
    return F.cross_entropy(logits, torch.zeros(len(anchor), dtype=torch.long))


def make():
    torch.manual_seed(74)
    enc = nn.Linear(5, 3)
    return enc, NegativeBank(6, 3), [torch.randn(4, 5) for _ in range(2)], torch.randn(4, 5)


def run():
    enc, bank, past, x = make()
    bank.extend(enc, past)
    a = F.normalize(enc(x), dim=-1)
    p = F.normalize(enc(x + 0.1), dim=-1)
    loss = info_nce(a, p, bank, t=0.2)
    loss.backward()
    return {"enc": enc.weight.grad}
