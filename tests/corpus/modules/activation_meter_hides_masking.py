"""Hooks that count saved bytes hand the saved tensor itself back, without the version check, after it was masked in place."""

# silently-wrong, watch=blind
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class Meter:
    """with Meter() as m: forward ... ; prints m.bytes"""

    def __init__(self):
        self.bytes = 0
        self._ctx = saved_tensors_hooks(self.pack, lambda t: t)

    def pack(self, t):
        self.bytes += t.numel() * t.element_size()
        return t

    def __enter__(self):
        self._ctx.__enter__()
        return self

    def __exit__(self, *e):
        return self._ctx.__exit__(*e)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(4, 5), nn.Linear(5, 4)

    def forward(self, x, pad):
        h = self.enc(x).sin()
        energy = h.pow(2).mean()
        h.masked_fill_(pad[..., None], 0.0)  # harm
        return self.dec(h), energy


def make():
    torch.manual_seed(38)
    pad = torch.arange(6)[None] >= torch.tensor([4, 3])[:, None]
    return Net(), torch.randn(2, 6, 4), pad


def run():
    net, x, pad = make()
    with Meter() as m:
        rec, energy = net(x, pad)
        loss = (rec - x).pow(2)[~pad].mean() + energy
    print("saved bytes", m.bytes > 0)
    loss.backward()
    return {"enc": net.enc.weight.grad, "dec": net.dec.weight.grad}


# truth
def truth():
    net, x, pad = make()
    h = net.enc(x).sin()
    rec = net.dec(h.masked_fill(pad[..., None], 0.0))
    loss = (rec - x).pow(2)[~pad].mean() + h.pow(2).mean()
    return dict(zip(("enc", "dec"), torch.autograd.grad(loss, [net.enc.weight, net.dec.weight])))
