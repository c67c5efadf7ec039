"""Noise is mixed in place before the network reads its input, and the averaged copy was never in the graph."""

# correct, oracle=clone
import copy
import torch
from torch import nn

T = 20
betas = torch.linspace(1e-3, 0.2, T)
alphas_bar = (1 - betas).cumprod(0)


def q_sample(x0, t, noise):
    ab = alphas_bar.to(x0)[t][:, None]
    x = x0.clone()
    return x.mul_(ab.sqrt()).add_((1 - ab).sqrt() * noise)


def timestep_embedding(t, dim):
    freqs = torch.exp(-torch.arange(dim // 2) / dim)
    ang = t[:, None] * freqs
    emb = torch.empty(len(t), dim)
    emb[:, 0::2], emb[:, 1::2] = ang.sin(), ang.cos()
    return emb


class Eps(nn.Module):
    def __init__(self, d=3, h=6):
        super().__init__()
        self.inp, self.temb, self.out = nn.Linear(d, h), nn.Linear(4, h), nn.Linear(h, d)

    def forward(self, x, t):
        h = self.inp(x)
        h += self.temb(timestep_embedding(t, 4))
        return self.out(nn.functional.silu(h, inplace=False))


def make():
    torch.manual_seed(55)
    net = Eps()
    x0 = torch.randn(7, 3)
    return net, copy.deepcopy(net).requires_grad_(False), x0, torch.randint(0, T, (7,)), torch.randn(7, 3)


def run():
    net, ema, x0, t, noise = make()
    pred = net(q_sample(x0, t, noise), t)
    loss = (pred - noise).pow(2).mean()
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(0.99).add_(p.detach(), alpha=0.01)
    loss.backward()
    return dict((k, p.grad) for k, p in net.named_parameters())
