"""Hidden states go into a preallocated buffer and are read back from it by select."""

# bug: raises-backward, tensor=hidden
# fixed: correct
# written_only: correct
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, inputs, units):
        super().__init__()
        self.units = units
        self.into = nn.Linear(inputs, units)
        self.back = nn.Linear(units, units, bias=False)

    def forward(self, sequence):
        steps, batch, _ = sequence.shape
        hidden = torch.zeros(steps + 1, batch, self.units)
        state = torch.zeros(batch, self.units)  # [written_only]
        for t in range(steps):
            update = self.into(sequence[t]) + self.back(hidden[t])  # [bug] saves
            update = self.into(sequence[t]) + self.back(hidden[t].clone())  # [fixed]
            update = self.into(sequence[t]) + self.back(state)  # [written_only]
            hidden[t + 1] = torch.tanh(update)  # [bug] harm
            hidden[t + 1] = torch.tanh(update)  # [fixed]
            state = torch.tanh(update)  # [written_only]
            hidden[t + 1] = state  # [written_only]
        return hidden[1:]


def make():
    torch.manual_seed(29)
    return Recurrent(2, 3), torch.randn(4, 2, 2)


def run():
    model, sequence = make()
    outputs = model(sequence)
    loss = outputs[-1].pow(2).sum() + outputs.mean()
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


# truth
def truth():
    model, sequence = make()
    state, outputs = torch.zeros(2, 3), []
    for x in sequence:
        state = torch.tanh(model.into(x) + model.back(state))
        outputs.append(state)
    loss = outputs[-1].pow(2).sum() + torch.stack(outputs).mean()
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(model.parameters()))))
