"""Running statistics move between two train-mode forwards, whose backward uses the batch's own."""

# correct, oracle=clone
import torch
import torch.nn as nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(
            nn.Linear(4, 6),
            nn.BatchNorm1d(6),
            nn.ReLU(inplace=True),
            nn.Linear(6, 3),
        )

    def forward(self, a, b):
        return tuple(map(self.embed, (a, b)))


def contrastive(za, zb, same, margin=1.0):
    d = (za - zb).pow(2).sum(-1).add(1e-6).sqrt()
    return torch.where(same, d.pow(2), (margin - d).clamp(min=0).pow(2)).mean()


def make():
    torch.manual_seed(81)
    a, b = torch.randn(8, 4), torch.randn(8, 4) * 2
    return Siamese().train(), a, b, torch.arange(8) % 2 == 0


def run():
    net, a, b, same = make()
    za, zb = net(a, b)
    with torch.no_grad():
        net.embed(torch.cat([a, b]) * 3)  # extra pass, only for the statistics
    contrastive(za, zb, same).backward()
    return {n: p.grad for n, p in net.named_parameters()}
