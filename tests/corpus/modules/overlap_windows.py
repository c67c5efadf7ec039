"""The edges of a signal are faded in place after its overlapping frames were saved."""

# raises-backward
from dataclasses import dataclass
import torch


@dataclass
class Framer:
    size: int
    hop: int

    def frames(self, sig):
        n = (sig.numel() - self.size) // self.hop + 1
        return sig.as_strided((n, self.size), (self.hop, 1))

    def fade_edges(self, sig, n=2):
        ramp = torch.linspace(0, 1, n)
        sig[:n] *= ramp  # harm
        sig[-n:] *= ramp.flip(0)  # harm


@dataclass
class Synth:
    framer: Framer
    coeffs: torch.Tensor
    basis: torch.Tensor

    def render(self):
        return torch.sin(self.basis @ self.coeffs)

    def spectral_loss(self, target):
        sig = self.render()
        frames = self.framer.frames(sig)
        energy = (frames * frames).sum(-1)  # saves
        self.framer.fade_edges(sig)
        return (energy - target).abs().mean() + sig.mean()


def make():
    torch.manual_seed(64)
    coeffs = torch.randn(4, requires_grad=True)
    return Synth(Framer(6, 3), coeffs, torch.randn(18, 4)), torch.rand(5)


def run():
    synth, target = make()
    synth.spectral_loss(target).backward()
    return {"coeffs": synth.coeffs.grad}
