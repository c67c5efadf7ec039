"""A second lookup with max_norm rescales rows of the tied weight that the decoder's product has saved."""

# raises-backward
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = {"vocab": 11, "d": 5, "max_norm": 1.0}


class TiedLM(nn.Module):
    def __init__(self, vocab, d, max_norm):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, max_norm=max_norm)
        self.mix = nn.Linear(d, d)

    def embed(self, ids):
        return self.emb(ids)  # harm

    def decode(self, h):
        return h @ self.emb.weight.t()  # saves

    def forward(self, ctx):
        return self.decode(torch.tanh(self.mix(self.embed(ctx).mean(1))))

    def neg_penalty(self, ids):
        return self.embed(ids).pow(2).sum(-1).mean()


def make():
    torch.manual_seed(6)
    lm = TiedLM(**CFG)
    ctx = torch.tensor([[1, 4, 2], [7, 0, 3]])
    return lm, ctx, torch.tensor([5, 9]), torch.tensor([6, 8, 10])


def run():
    lm, ctx, tgt, neg = make()
    logits = lm(ctx)
    nll = F.cross_entropy(logits, tgt)
    reg = 0.1 * lm.neg_penalty(neg)
    (nll + reg).backward()
    return {"emb": lm.emb.weight.grad, "mix": lm.mix.weight.grad}
