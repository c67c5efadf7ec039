"""Tokens are added in place to a slice of the positions, a view of a leaf that requires grad."""

# raises-forward
import torch
from torch import nn
# ViT-ish thing. I get the error only for images smaller than the max size??


class PosMixin:
    def init_pos(self, n, d):
        self.pos = nn.Parameter(torch.randn(1, n, d) * 0.02)

    def with_positions(self, tokens):
        p = self.pos[:, : tokens.size(1)]
        p += tokens
        return p


class ClsMixin:
    def init_cls(self, d):
        self.cls = nn.Parameter(torch.zeros(1, 1, d))

    def prepend_cls(self, tokens):
        return torch.cat([self.cls.expand(tokens.size(0), -1, -1), tokens], dim=1)


class TinyViT(PosMixin, ClsMixin, nn.Module):
    def __init__(self, d=4, max_tokens=10):
        nn.Module.__init__(self)
        self.init_pos(max_tokens, d)
        self.init_cls(d)
        self.proj = nn.Linear(3, d)
        self.out = nn.Linear(d, 2)

    def forward(self, patches):
        x = self.prepend_cls(self.proj(patches))
        x = self.with_positions(x)
        return self.out(x[:, 0])


def make():
    torch.manual_seed(2)
    return TinyViT(), torch.randn(1, 6, 3), torch.tensor([1])


def run():
    net, patches, label = make()
    loss = nn.functional.cross_entropy(net(patches), label)
    loss.backward()
    return {"pos": net.pos.grad, "proj": net.proj.weight.grad}
