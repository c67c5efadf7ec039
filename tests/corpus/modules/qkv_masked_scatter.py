"""Every in-place write of an attention layer meets a fresh tensor that no earlier operation saved."""

# correct, oracle=clone
import math

import torch
import torch.nn as nn


class PointerHead(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.gen = nn.Linear(dim, vocab)
        self.mix = nn.Linear(dim, 1)
        self.vocab = vocab

    def forward(self, x, ids, pad):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, D).unbind(2)
        q = q * D**-0.5
        scores = q @ k.transpose(1, 2)
        scores.masked_fill_(pad[:, None, :], -math.inf)
        att = scores.softmax(-1)
        ctx = att @ v
        copy_p = torch.zeros(B, T, self.vocab)
        copy_p.scatter_add_(2, ids[:, None, :].expand(B, T, T), att)
        g = self.mix(ctx)
        g.sigmoid_()
        p = self.gen(ctx).softmax(-1) * g
        p += (1 - g) * copy_p
        return p


def make():
    torch.manual_seed(12)
    B, T, D, V = 2, 5, 6, 8
    emb = nn.Embedding(V, D)
    head = PointerHead(D, V)
    ids = torch.randint(1, V, (B, T))
    pad = torch.zeros(B, T, dtype=torch.bool)
    pad[0, 3:] = True
    return emb, head, ids, pad


def run():
    emb, head, ids, pad = make()
    p = head(emb(ids), ids, pad)
    nll = -(p.gather(2, ids.roll(-1, 1)[..., None]) + 1e-9).log().squeeze(-1)
    nll[pad] = 0
    loss = nll.sum() / (~pad).sum()
    loss.backward()
    return {"emb": emb.weight.grad, "qkv": head.qkv.weight.grad, "mix": head.mix.weight.grad}
