"""A gate is multiplied onto the spectrum under no_grad, so gradients still flow through muted bands."""

# bug: silently-wrong, watch=blind
# fixed: correct
import math
import torch


def dct_matrix(n):
    k, i = torch.arange(n)[:, None], torch.arange(n)[None, :]
    return torch.cos(math.pi / n * (i + 0.5) * k) * math.sqrt(2 / n)


def conv_valid(sig, taps):
    return sig.unfold(-1, taps.numel(), 1) @ taps.flip(0)


def band_drop(spec, p, gen):
    gate = (torch.rand(spec.shape[-1], generator=gen) > p).to(spec.dtype)
    with torch.no_grad():  # [bug]
        spec *= gate / (1 - p)  # [bug] harm
    spec *= gate / (1 - p)  # [fixed]
    return spec


def make():
    torch.manual_seed(0)
    taps = torch.randn(4).mul_(0.5).requires_grad_()
    t = torch.linspace(0, 1, 19)
    noisy = torch.sin(12 * t) + 0.2 * torch.cos(41 * t)
    return taps, noisy


def run():
    taps, noisy = make()
    gen = torch.Generator().manual_seed(2)
    y = conv_valid(noisy, taps)
    spec = y @ dct_matrix(y.numel()).T
    spec = band_drop(spec, 0.4, gen)
    ref = torch.zeros_like(spec).index_fill_(0, torch.tensor([3]), 1.0)
    loss = ((spec - ref) ** 2).sum()
    loss.backward()
    return {"taps": taps.grad}


# truth
def truth():
    taps, noisy = make()
    y = conv_valid(noisy, taps)
    gate = torch.rand(y.numel(), generator=torch.Generator().manual_seed(2)) > 0.4
    spec = y @ dct_matrix(y.numel()).T * gate / (1 - 0.4)
    ref = torch.eye(y.numel())[3]
    return {"taps": torch.autograd.grad(((spec - ref) ** 2).sum(), taps)[0]}
