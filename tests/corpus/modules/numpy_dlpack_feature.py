"""A feature column is standardised by NumPy through DLPack after the model read it."""

# bug: silently-wrong, tensor=table
# fixed: correct
# before: correct
import numpy as np
import torch
from torch import nn


class FeatureStore:
    def __init__(self, rows, cols):
        self.table = torch.arange(float(rows * cols)).reshape(rows, cols).sin()
        self.array = np.from_dlpack(self.table)

    def standardise(self):
        for c in range(self.array.shape[1]):
            col = self.array[:, c]
            fresh = (col - col.mean()) / (col.std() + 1e-6)
            torch.from_dlpack(self.array)[:, c] = torch.tensor(fresh)  # [bug] harm
            torch.from_dlpack(self.array)[:, c] = torch.tensor(fresh)  # [before fixed]

    def batch(self, rows):
        return self.table[rows[0] : rows[1]]  # [bug before]
        return self.table[rows[0] : rows[1]].clone()  # [fixed]


def make():
    torch.manual_seed(50)
    return FeatureStore(5, 3), nn.Bilinear(3, 3, 1)


def predict(store, model, rows):
    x = store.batch(rows)
    return model(x, x)  # [bug] saves
    return model(x, x)  # [fixed before]


def run():
    store, model = make()
    store.standardise()  # [before]
    out = predict(store, model, (1, 4))
    store.standardise()  # [bug fixed]
    out.sum().backward()
    return {"w": model.weight.grad}


# truth
def truth():
    store, model = make()
    t = store.table.clone()
    t = (t - t.mean(0)) / (t.std(0, unbiased=False) + 1e-6)  # [before]
    x = t[1:4]
    return {"w": torch.einsum("ni,nj->ij", x, x)[None]}
