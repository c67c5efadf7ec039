"""The shared NumPy buffer is refilled only after each batch's backward."""

# correct, oracle=clone
import numpy as np
import torch
from torch import nn


class Stream:
    def __init__(self, rows, cols, seed):
        self.rng = np.random.default_rng(seed)
        self.buf = np.zeros((rows, cols), dtype=np.float32)
        self.view = torch.from_numpy(self.buf)

    def refill(self):
        self.buf[...] = self.rng.standard_normal(self.buf.shape)

    def __iter__(self):
        for _ in range(3):
            self.refill()
            yield self.view


def make():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(5, 7), nn.Softplus(), nn.Linear(7, 5))
    return net, Stream(6, 5, seed=4)


def run():
    net, stream = make()
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    for x in stream:
        opt.zero_grad()
        recon = net(x)
        loss = (recon - x).square().mean()
        loss.backward()
        opt.step()
    stream.buf[:] = 0  # scrub the buffer when done
    return {"enc": net[0].weight.grad, "dec": net[2].weight.grad}
