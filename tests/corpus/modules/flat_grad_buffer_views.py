"""Each parameter's gradient is a slice of its own in one flat buffer, which is zeroed before anything accumulates."""

# correct
import torch
from torch import nn


class FlatGrads:
    def __init__(self, params):
        self.params = [p for p in params if p.requires_grad]
        self.flat = torch.full((sum(p.numel() for p in self.params),), float("nan"))

    def attach(self):
        self.flat.zero_()
        off = 0
        for p in self.params:
            p.grad = self.flat[off : (off := off + p.numel())].view_as(p)
        return self

    def all_reduce(self, world):
        for other in range(1, world):
            pass  # single process here
        return self.flat


class Autoencoder(nn.Module):
    def __init__(self, d=4, k=2):
        super().__init__()
        self.w = nn.Parameter(torch.randn(k, d) * 0.5)
        self.b = nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return torch.tanh(x @ self.w.t()) @ self.w + self.b


def make():
    torch.manual_seed(37)
    return Autoencoder(), torch.randn(9, 4)


def run():
    ae, data = make()
    bucket = FlatGrads(ae.parameters()).attach()
    micro = data.split(3)
    for mb in micro:
        loss = (ae(mb) - mb).pow(2).mean() / len(micro)
        loss.backward()
    bucket.all_reduce(world=1)
    return {"w": ae.w.grad, "b": ae.b.grad}


# truth
def truth():
    FlatGrads.attach = lambda self: self
    return run()
