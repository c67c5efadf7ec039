"""A dropout mask is multiplied into the activations under no_grad, so the graph does not know of it."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn


class LockedDropout(nn.Module):
    """same mask for all time steps (variational dropout)"""

    def __init__(self, p):
        super().__init__()
        self.p = p

    @torch.no_grad()  # [bug]
    def forward(self, x):
        if not self.training or not self.p:
            return x
        mask = torch.bernoulli(torch.full((1, x.size(1), x.size(2)), 1 - self.p)) / (1 - self.p)
        x.mul_(mask)  # [bug] harm
        x.mul_(mask)  # [fixed]
        return x


class LM(nn.Module):
    def __init__(self, vocab=11, d=6):
        super().__init__()
        self.enc = nn.Embedding(vocab, d)
        self.lockdrop = LockedDropout(0.5)
        self.dec = nn.Linear(d, vocab)

    def forward(self, ids):
        e = self.enc(ids)
        self.lockdrop(e)
        return self.dec(e)


def make():
    torch.manual_seed(28)
    return LM(), torch.randint(0, 11, (5, 3))


def run():
    lm, ids = make()
    logits = lm(ids[:-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[1:].flatten())
    loss.backward()
    return {"enc": lm.enc.weight.grad, "dec": lm.dec.weight.grad}


# truth
def truth():
    lm, ids = make()
    e = lm.enc(ids[:-1])
    mask = torch.bernoulli(torch.full((1, e.size(1), e.size(2)), 0.5)) / 0.5
    loss = nn.functional.cross_entropy(lm.dec(e * mask).flatten(0, 1), ids[1:].flatten())
    return dict(zip(("enc", "dec"), torch.autograd.grad(loss, [lm.enc.weight, lm.dec.weight])))
