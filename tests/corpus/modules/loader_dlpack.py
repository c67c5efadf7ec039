"""A ring buffer is shared with another library by DLPack; it is advanced while the loss still holds a slot."""

# bug: silently-wrong, tensor=slot
# fixed: correct
# other_slot: correct
import torch
from torch import nn


class Ring:
    def __init__(self, slots, width):
        self.memory = torch.zeros(slots, width)
        self.shared = torch.from_dlpack(self.memory)
        self.next = 0

    def push(self, row):
        self.shared[self.next % len(self.shared)] = row  # [bug] harm
        self.shared[self.next % len(self.shared)] = row  # [fixed other_slot]
        self.next += 1

    def latest(self):
        slot = self.memory[(self.next - 1) % len(self.memory)]
        return slot  # [bug other_slot]
        return slot.clone()  # [fixed]


def make():
    torch.manual_seed(179)
    ring = Ring(1, 3)  # [bug fixed]
    ring = Ring(4, 3)  # [other_slot]
    return nn.Linear(3, 1), ring, torch.randn(3, 3)


def run():
    model, ring, signal = make()
    errors = []
    for row in signal:
        ring.push(row)
        slot = ring.latest()
        errors.append(model(slot).tanh().pow(2))  # [bug] saves
        errors.append(model(slot).tanh().pow(2))  # [fixed other_slot]
    loss = torch.stack(errors).mean()
    loss.backward()
    return {"weight": model.weight.grad, "bias": model.bias.grad}


# truth
def truth():
    model, ring, signal = make()
    loss = model(signal).tanh().pow(2).mean()
    weight, bias = torch.autograd.grad(loss, [model.weight, model.bias])
    return {"weight": weight, "bias": bias}
