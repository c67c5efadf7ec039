"""XNOR style: binarise p.data for forward and backward, put the real weights back before the step."""

# order: correct
# early: silently-wrong, tensor=weight
# saved_copy: correct
import torch
from torch import nn


class BinOp:
    def __init__(self, model):
        self.targets = [m.weight for m in model.modules() if isinstance(m, nn.Linear)][1:]
        self.saved = [t.data.clone() for t in self.targets]

    def binarization(self):
        for s, t in zip(self.saved, self.targets):
            s.copy_(t.data)
            alpha = t.data.abs().mean(1, keepdim=True)
            t.data = t.data.sign() * alpha

    def restore(self):
        for s, t in zip(self.saved, self.targets):
            t.data.copy_(s)  # [order]
            t.data.copy_(s)  # [early] harm
            t.data = s.clone()  # [saved_copy]


class Clip(nn.Module):
    def forward(self, x):
        return x.clamp(-1, 1)


def make():
    torch.manual_seed(74)
    model = nn.Sequential(nn.Linear(3, 5), Clip(), nn.Linear(5, 4), nn.Hardtanh(), nn.Linear(4, 1))
    return model, BinOp(model), torch.randn(6, 3)


def run():
    model, op, x = make()
    op.binarization()
    out = model(x)
    loss = (out**2).mean()
    op.restore()  # [early]
    loss.backward()
    op.restore()  # [order saved_copy]
    return {n: p.grad for n, p in model.named_parameters()}


# truth
def truth():
    model, op, x = make()
    w = {n: p.detach().clone() for n, p in model.named_parameters()}
    for n in ("2.weight", "4.weight"):
        w[n] = w[n].sign() * w[n].abs().mean(1, keepdim=True)
    w = {n: v.requires_grad_() for n, v in w.items()}
    out = torch.func.functional_call(model, w, (x,))
    return dict(zip(w, torch.autograd.grad(out.pow(2).mean(), list(w.values()))))
