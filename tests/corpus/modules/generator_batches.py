"""prefetch() recycles one tensor; triplet loss over consecutive batches then breaks."""

# bug: raises-backward, tensor=x
# fixed: correct
# pointwise: correct
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    batch: int = 2
    width: int = 3
    margin: float = 0.5


def prefetch(data, cfg):
    staging = torch.empty(cfg.batch, cfg.width)
    for i in range(0, len(data), cfg.batch):
        staging.copy_(data[i : i + cfg.batch])  # [bug] harm
        staging.copy_(data[i : i + cfg.batch])  # [fixed pointwise]
        yield staging  # [bug pointwise]
        yield staging.clone()  # [fixed]


def make():
    torch.manual_seed(2)
    cfg = Config()
    enc = nn.Sequential(nn.Linear(cfg.width, 4), nn.Hardtanh(inplace=True))
    return cfg, enc, torch.randn(6, cfg.width)


def triplet(a, b, c, margin):
    return torch.relu((a - b).pow(2).sum(1) - (a - c).pow(2).sum(1) + margin).mean()


def run():
    cfg, enc, data = make()
    codes = []
    for x in prefetch(data, cfg):
        codes.append(enc(x))  # [fixed]
        codes.append(enc(x))  # [bug] saves
        with torch.no_grad():  # [pointwise]
            codes.append(enc(x))  # [pointwise]
    codes[-1] = enc(x)  # [pointwise]
    loss = triplet(*codes, cfg.margin)
    loss.backward()
    return {"w": enc[0].weight.grad, "b": enc[0].bias.grad}


# truth
def truth():
    cfg, enc, data = make()
    a, b, c = (nn.functional.hardtanh(data[k : k + 2] @ enc[0].weight.t() + enc[0].bias) for k in (0, 2, 4))
    a, b = a.detach(), b.detach()  # [pointwise]
    w, g = torch.autograd.grad(triplet(a, b, c, cfg.margin), [enc[0].weight, enc[0].bias])
    return {"w": w, "b": g}
