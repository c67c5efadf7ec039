"""Window views are made under no_grad, and writing one of them in place with gradient recording on is refused."""

# raises-forward
import torch

HOP, WIN = 3, 6


def make():
    torch.manual_seed(8)
    taps = torch.hann_window(WIN).add(0.1).requires_grad_()
    sig = torch.randn(4, WIN)
    return taps, sig


def overlap_views(buf, n):
    # only bookkeeping so don't track it
    with torch.no_grad():
        return [buf[i * HOP : i * HOP + WIN] for i in range(n)]


def ola(frames, taps):
    n = frames.shape[0]
    out = torch.zeros(HOP * (n - 1) + WIN)
    for view, frame in zip(overlap_views(out, n), frames):
        view += frame * taps
    return out


def run():
    taps, sig = make()
    y = ola(sig, taps)
    target = torch.sin(torch.linspace(0, 6.28, y.numel()))
    loss = ((y - target) ** 2).mean()
    loss.backward()
    print(f"loss={loss.item():.4f}")
    return {"taps": taps.grad}
