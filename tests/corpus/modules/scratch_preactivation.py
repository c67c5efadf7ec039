"""A pre-activation is wiped after sigmoid and tanh, which keep only their outputs."""

# correct, oracle=clone
import torch
from torch import nn


class GatedUnit(nn.Module):
    """WaveNet style gate. pre-activations are wiped right away so that nobody uses them by accident"""

    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.conv = nn.Conv1d(cin, 2 * cout, 2, dilation=dilation)
        self.cout = cout

    def forward(self, x):
        pre = self.conv(x)
        f = torch.tanh(pre[:, : self.cout])
        g = torch.sigmoid(pre[:, self.cout :])
        pre.zero_()
        return f * g


def make():
    torch.manual_seed(59)
    stack = nn.Sequential(GatedUnit(1, 3, 1), GatedUnit(3, 3, 2), GatedUnit(3, 1, 4))
    wave = torch.sin(torch.linspace(0, 9, 20)).view(1, 1, -1)
    return stack, wave


def run():
    stack, wave = make()
    pred = stack(wave)
    loss = (pred - wave[..., -pred.size(-1) :]).abs().mean()
    loss.backward()
    return {n: p.grad for n, p in stack.named_parameters()}
