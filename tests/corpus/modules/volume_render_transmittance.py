"""The transmittance is multiplied in place after the weight of the sample has saved it."""

# raises-backward
import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 4))

    def forward(self, p):
        o = self.net(p)
        return nn.functional.softplus(o[..., :1]), o[..., 1:].sigmoid()


def composite(field, origins, dirs, ts, stop=1e-4):
    T = torch.ones(origins.shape[0], 1)
    rgb = torch.zeros(origins.shape[0], 3)
    for near, far in zip(ts, ts[1:]):
        sigma, c = field(origins + dirs * near)
        alpha = 1 - torch.exp(-sigma * (far - near))
        rgb = rgb + alpha * T * c  # saves
        T *= 1 - alpha  # harm
        if T.max() < stop:
            break
    return rgb + T


def make():
    torch.manual_seed(77)
    o = torch.zeros(5, 3)
    d = nn.functional.normalize(torch.randn(5, 3), dim=-1)
    return Field(), o, d, torch.linspace(0.5, 2.0, 6), torch.rand(5, 3)


def run():
    field, o, d, ts, gt = make()
    img = composite(field, o, d, ts)
    loss = (img - gt).abs().mean()
    loss.backward()
    return {n: p.grad for n, p in field.named_parameters()}
