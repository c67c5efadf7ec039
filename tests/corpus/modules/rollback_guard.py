"""The guard's load_state_dict copies the old state into the parameters between the forward and the backward."""

# raises-backward
import copy
import torch
import torch.nn as nn


class SpikeGuard:
    """rolls the model back to the last good state if the loss explodes"""

    def __init__(self, model, limit):
        self.model, self.limit = model, limit
        self.good = copy.deepcopy(model.state_dict())

    def __call__(self, value):
        if value > self.limit:
            self.restore()
            return False
        self.good = copy.deepcopy(self.model.state_dict())
        return True

    def restore(self):
        self.model.load_state_dict(self.good)  # harm


def train_step(model, guard, x, y, aux_weight=0.1):
    h = model[0](x).tanh()
    main = (model[1](h) - y).pow(2).mean()  # saves
    guard(main.item())
    aux = h.abs().mean()
    (main + aux_weight * aux).backward()


def make():
    torch.manual_seed(55)
    model = nn.ModuleList([nn.Linear(3, 4), nn.Linear(4, 1)])
    return model, SpikeGuard(model, limit=1.0), torch.randn(5, 3) * 3, torch.randn(5, 1) * 10


def run():
    model, guard, x, y = make()
    train_step(model, guard, x, y)
    return {n: p.grad for n, p in model.named_parameters()}
