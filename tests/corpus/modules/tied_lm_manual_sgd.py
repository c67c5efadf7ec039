"""A hand-written SGD writes through .data after backward and before the next forward."""

# correct, oracle=clone
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "hello gradient world, hello torch"


class TiedLM(nn.Module):
    def __init__(self, vocab, dim=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        h, _ = self.mix(self.embed(ids))
        return self.out(h)


def make():
    torch.manual_seed(2)
    chars = sorted(set(TEXT))
    ids = torch.tensor([chars.index(c) for c in TEXT])
    return TiedLM(len(chars)), ids[None, :-1], ids[None, 1:]


def sgd(params, lr):
    for p in params:
        if p.grad is None:
            continue
        p.data -= lr * p.grad.data
        p.data.clamp_(-1.5, 1.5)


def run():
    lm, inp, tgt = make()
    for epoch in range(4):
        for p in lm.parameters():
            if p.grad is not None:
                p.grad.data.zero_()
        logits = lm(inp)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        loss.backward()
        if epoch != 3:
            sgd(lm.parameters(), lr=0.5)
    return {"tied": lm.embed.weight.grad, "w_ih": lm.mix.weight_ih_l0.grad}
