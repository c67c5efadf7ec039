"""A Fourier transform is linear and saves no values, so its high frequencies may be zeroed in place."""

# correct, oracle=clone
import torch
from torch import nn


class SpectralLayer(nn.Module):
    """FNO-like layer, 1d"""

    def __init__(self, ch, modes):
        super().__init__()
        self.modes = modes
        self.mix = nn.Parameter(torch.randn(ch, ch) / ch)
        self.re = nn.Parameter(torch.ones(ch, modes))
        self.im = nn.Parameter(torch.zeros(ch, modes) + 0.1)

    def forward(self, x):
        n = x.shape[-1]
        spec = torch.fft.rfft(torch.einsum("oc,bcn->bon", self.mix, x))
        spec[..., self.modes :] = 0
        low = spec[..., : self.modes] * torch.complex(self.re, self.im)
        full = torch.zeros_like(spec)
        full[..., : self.modes] = low
        return torch.fft.irfft(full, n=n) + x


def make():
    torch.manual_seed(67)
    layers = nn.Sequential(SpectralLayer(2, 3), nn.GELU(), SpectralLayer(2, 3))
    return layers, torch.randn(2, 2, 10), torch.randn(2, 2, 10)


def run():
    fno, u0, u1 = make()
    loss = (fno(u0) - u1).square().mean()
    loss.backward()
    return {n: p.grad for n, p in fno.named_parameters()}
