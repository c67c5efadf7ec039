"""A recorded clamp in place keeps its own copy of the old value, and the division before it saved no result."""

# correct, oracle=clone
import torch
import torch.nn as nn


def betas_for(T, lo=1e-3, hi=0.3):
    return torch.linspace(lo, hi, T)


class Denoiser(nn.Module):
    def __init__(self, dim, T):
        super().__init__()
        self.time = nn.Embedding(T, dim)
        self.net = nn.Sequential(nn.Linear(dim, 8), nn.SiLU(), nn.Linear(8, dim))

    def forward(self, x, t):
        return self.net(x + self.time(t))


def predict_x0(model, xt, t, abar):
    a = abar[t].sqrt()[:, None]
    s = (1 - abar[t]).sqrt()[:, None]
    x0 = (xt - s * model(xt, t)) / a
    x0.clamp_(-1.0, 1.0)
    return x0


def make():
    torch.manual_seed(68)
    T = 6
    abar = torch.cumprod(1 - betas_for(T), 0)
    return Denoiser(3, T), torch.rand(7, 3) * 2 - 1, abar


def run():
    model, x0, abar = make()
    t = torch.tensor([0, 1, 2, 3, 4, 5, 3])
    noise = torch.randn_like(x0)
    xt = abar[t].sqrt()[:, None] * x0
    xt += (1 - abar[t]).sqrt()[:, None] * noise
    pred = predict_x0(model, xt, t, abar)
    loss = (pred - x0).pow(2).mean() + 0.1 * pred.std()
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}
