"""Restoring the snapshot copies raw bytes into the storage of the flat parameter after the forward and before backward."""

# silently-wrong, oracle=clone
import torch


class FlatModel:
    """all weights live in one flat tensor, snapshots are raw bytes"""

    def __init__(self, d_in, d_hidden):
        self.shapes = [(d_in, d_hidden), (d_hidden, 1)]
        n = sum(a * b for a, b in self.shapes)
        self.flat = torch.randn(n, requires_grad=True)

    def pieces(self):
        sizes = [a * b for a, b in self.shapes]
        return [f.view(s) for f, s in zip(self.flat.split(sizes), self.shapes)]

    def __call__(self, x):
        w1, w2 = self.pieces()
        return torch.tanh(x @ w1) @ w2  # saves

    def snapshot(self):
        return self.flat.untyped_storage().clone()

    def restore(self, raw):
        self.flat.untyped_storage().copy_(raw)  # harm


def evaluate_candidate(model, delta, x, y):
    before = model.snapshot()
    model.flat.data.add_(delta)
    loss = (model(x) - y).square().mean()
    model.restore(before)
    return loss


def make():
    torch.manual_seed(17)
    model = FlatModel(3, 4)
    return model, torch.randn(16) * 0.7, torch.randn(6, 3), torch.randn(6, 1)


def run():
    model, delta, x, y = make()
    loss = evaluate_candidate(model, delta, x, y)
    loss.backward()
    return {"flat": model.flat.grad}
