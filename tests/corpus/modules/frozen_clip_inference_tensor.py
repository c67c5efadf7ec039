"""A text tower runs in inference mode, and the trainable adapter's first layer may not save what it returns."""

# raises-forward
import functools
import torch
import torch.nn as nn
import torch.nn.functional as F


def frozen(fn):
    """run the wrapped encoder without autograd (faster than no_grad they say)"""

    @functools.wraps(fn)
    def inner(*args, **kw):
        with torch.inference_mode():
            return fn(*args, **kw)

    return inner


class TextTower(nn.Module):
    def __init__(self, vocab=13, d=6):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.fc = nn.Linear(d, d)

    @frozen
    def encode(self, ids):
        return F.normalize(self.fc(self.tok(ids).mean(1)), dim=-1)


class Adapter(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.down, self.up = nn.Linear(d, 3), nn.Linear(3, d)

    def forward(self, z):
        return z + self.up(torch.relu(self.down(z)))


def make():
    torch.manual_seed(5)
    ids = torch.randint(0, 13, (4, 7))
    img = F.normalize(torch.randn(4, 6), dim=-1)
    return TextTower(), Adapter(), ids, img


def run():
    tower, adapter, ids, img = make()
    txt = adapter(tower.encode(ids))
    logits = img @ txt.t() / 0.07
    loss = F.cross_entropy(logits, torch.arange(len(ids)))
    loss.backward()
    return {n: p.grad for n, p in adapter.named_parameters()}
