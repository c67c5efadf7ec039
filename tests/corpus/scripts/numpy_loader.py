"""A loader that fills one NumPy array again and again, while the losses of two microbatches wait for one backward."""

# bug: silently-wrong
# fixed: correct
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Recorder:
    """Reads windows of a signal, as a sound card would: always into the same memory."""

    def __init__(self, window, seed):
        self.rng = np.random.default_rng(seed)
        self.buffer = np.zeros((4, window), dtype=np.float32)
        self.window = window

    def fill(self):
        time = np.arange(self.window, dtype=np.float32)
        frequency = self.rng.choice([0.2, 0.9], size=(4, 1)).astype(np.float32)
        self.buffer[:] = np.sin(frequency * time)  # harm
        self.buffer += 0.1 * self.rng.standard_normal(self.buffer.shape).astype(np.float32)  # harm
        return (frequency[:, 0] > 0.5).astype(np.int64)


class Windows:
    def __init__(self, recorder, count):
        self.recorder, self.count = recorder, count

    def __iter__(self):
        for _ in range(self.count):
            labels = self.recorder.fill()
            yield torch.from_numpy(self.recorder.buffer), torch.from_numpy(labels)  # [bug]
            yield torch.from_numpy(self.recorder.buffer).clone(), torch.from_numpy(labels)  # [fixed]


class Listener(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.filters = nn.Linear(window, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, sound):
        return self.out(self.filters(sound).tanh())  # saves


def train(model, windows, optimizer, together=2):
    waiting, losses = [], []
    for sound, labels in windows:
        waiting.append(F.cross_entropy(model(sound), labels))
        if len(waiting) < together:
            continue
        loss = torch.stack(waiting).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        waiting.clear()
    return losses


if __name__ == "__main__":
    torch.manual_seed(8)
    network = Listener(10)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.5)
    for epoch in range(2):
        losses = train(network, Windows(Recorder(10, epoch), 4), optimizer)
        print(f"epoch {epoch}:", [round(loss, 5) for loss in losses])
