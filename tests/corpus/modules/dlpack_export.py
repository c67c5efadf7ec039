"""Activations are normalised through a DLPack import, which shares their memory but not their counter, after sigmoid has saved them."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn


def to_other_framework(t):
    # stands in for jax/cupy: zero-copy import, then their own preprocessing
    ext = torch.from_dlpack(t.detach())
    ext.sub_(ext.mean(dim=0, keepdim=True)).div_(ext.std(dim=0, keepdim=True) + 1e-6)  # harm
    return ext.square().sum(1).argmax().item()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 6)
        self.dec = nn.Linear(6, 2)
        self.picked = []

    def forward(self, x):
        code = torch.sigmoid(self.enc(x))  # saves
        y = self.dec(code)  # saves
        self.picked.append(to_other_framework(code))
        return y


def make():
    torch.manual_seed(27)
    return Net(), torch.randn(8, 4), torch.randint(0, 2, (8,))


def run():
    net, x, y = make()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return {"enc": net.enc.weight.grad, "dec": net.dec.weight.grad}
