"""A generator refills one NumPy buffer that every saved window shares, so all gradients use the last window."""

# silently-wrong, oracle=clone
import numpy as np
import torch
import torch.nn as nn

# sensor stream, two windows per optimisation step (truncated gradient accumulation)


def windows(signal, width, hop):
    """yields (1, width) tensors without allocating"""
    scratch = np.zeros((1, width), dtype=np.float32)
    as_tensor = torch.from_numpy(scratch)
    start = 0
    while start + width <= signal.shape[0]:
        scratch[0, :] = signal[start : start + width]  # harm
        yield as_tensor
        start += hop


def make():
    torch.manual_seed(11)
    rng = np.random.default_rng(0)
    signal = rng.normal(size=32).astype(np.float32)
    return nn.Linear(8, 3), signal


def score(layer, window):
    return torch.sigmoid(layer(window)).pow(2).sum()  # saves


def run():
    layer, signal = make()
    total = torch.zeros(())
    for i, w in enumerate(windows(signal, width=8, hop=8)):
        total = total + score(layer, w) * (i + 1)
    total.backward()
    return {"weight": layer.weight.grad, "bias": layer.bias.grad}
