"""Each frame shares one NumPy slot through DLPack, and the next frame overwrites what the linear layer has saved."""

# silently-wrong, oracle=clone
import numpy as np
import torch
import torch.nn as nn


class Camera:
    def __init__(self, h, w, seed=0):
        self.slot = np.zeros((h, w), dtype=torch.zeros(()).numpy().dtype)
        self.rng = np.random.default_rng(seed)

    def _grab(self):
        self.slot[...] = self.rng.standard_normal(self.slot.shape)  # harm

    def __iter__(self):
        while True:
            self._grab()
            yield torch.from_dlpack(self.slot)


class Encoder(nn.Module):
    def __init__(self, w, d):
        super().__init__()
        self.lin = nn.Linear(w, d, bias=False)

    def forward(self, frame):
        return torch.tanh(self.lin(frame)).mean(0)  # saves


def make():
    torch.manual_seed(0)
    return Encoder(5, 3), Camera(4, 5)


def run():
    enc, cam = make()
    codes = [enc(frame) for frame, _ in zip(cam, range(3))]
    loss = sum((b - a).pow(2).sum() for a, b in zip(codes, codes[1:]))
    loss.backward()
    return {"lin": enc.lin.weight.grad}
