"""A loader fills one NumPy buffer for every batch; the losses of all batches are summed before backward."""

# bug: silently-wrong, tensor=batch
# fixed: correct
# each: correct
import numpy
import torch
from torch import nn


class Loader:
    def __init__(self, rows, batch):
        self.rows, self.batch = rows, batch
        self.buffer = numpy.empty((batch, rows.shape[1]), dtype=numpy.float32)

    def __iter__(self):
        for start in range(0, len(self.rows), self.batch):
            numpy.copyto(self.buffer, self.rows[start : start + self.batch])  # [bug] harm
            numpy.copyto(self.buffer, self.rows[start : start + self.batch])  # [fixed each]
            yield torch.from_numpy(self.buffer)  # [bug each]
            yield torch.from_numpy(self.buffer).clone()  # [fixed]


def make():
    torch.manual_seed(173)
    rows = numpy.linspace(-1, 1, 18, dtype=numpy.float32).reshape(6, 3)
    return nn.Linear(3, 2), Loader(rows, 2)


def run():
    model, loader = make()
    total = 0.0
    for batch in loader:
        loss = model(batch).pow(2).mean()  # [bug] saves
        loss = model(batch).pow(2).mean()  # [fixed each]
        total = total + loss  # [bug fixed]
        loss.backward()  # [each]
    total.backward()  # [bug fixed]
    return {"weight": model.weight.grad, "bias": model.bias.grad}


# truth
def truth():
    model, loader = make()
    total = sum(model(torch.tensor(loader.rows[k : k + 2])).pow(2).mean() for k in (0, 2, 4))
    weight, bias = torch.autograd.grad(total, [model.weight, model.bias])
    return {"weight": weight, "bias": bias}
