"""A running state is kept as a NumPy array that shares the memory of the tensor the step has saved."""

# bug: silently-wrong, tensor=state
# fixed: correct
# unsaved: correct
import numpy
import torch


def make():
    torch.manual_seed(41)
    decay = torch.tensor([0.5, 0.9, 0.7], requires_grad=True)
    inputs = numpy.arange(12, dtype=numpy.float32).reshape(4, 3) / 10
    return decay, inputs


class Trace:
    """An eligibility trace: the newest input is mixed into the old ones."""

    def __init__(self, size):
        self.values = numpy.ones(size, dtype=numpy.float32)

    def tensor(self):
        return torch.from_numpy(self.values)  # [bug]
        return torch.from_numpy(self.values.copy())  # [fixed]
        return torch.from_numpy(self.values)  # [unsaved]

    def push(self, row):
        self.values *= 0.5  # [bug] harm
        self.values *= 0.5  # [fixed unsaved]
        self.values += row  # [bug] harm
        self.values += row  # [fixed unsaved]


def run():
    decay, inputs = make()
    trace = Trace(3)
    losses = []
    for row in inputs:
        state = trace.tensor()
        losses.append((state * decay).sum())  # [bug] saves
        losses.append((state * decay).sum())  # [fixed]
        losses.append((state + decay**2).sum())  # [unsaved]
        trace.push(row)
    total = torch.stack(losses).sum()
    total.backward()
    return {"decay": decay.grad}


# truth
def truth():
    decay, inputs = make()
    state, total = torch.ones(3), torch.zeros(3)
    for row in inputs:
        total = total + state
        state = state * 0.5 + torch.tensor(row)
    return {"decay": total}  # [bug fixed]
    return {"decay": 4 * 2 * decay.detach()}  # [unsaved]
