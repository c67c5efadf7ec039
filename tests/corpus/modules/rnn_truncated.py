"""Truncated backpropagation: the state is carried from chunk to chunk."""

# bug: raises-backward
# fixed: correct
# inplace: correct
import torch
from torch import nn


def make():
    torch.manual_seed(31)
    cell = nn.GRUCell(2, 3)
    head = nn.Linear(3, 1)
    return cell, head, torch.randn(2, 3, 1, 2)


def train_chunk(cell, head, chunk, state):
    loss = 0.0
    for x in chunk:
        state = cell(x, state)
        loss = loss + head(state).pow(2).mean()
    return loss, state


def run():
    cell, head, chunks = make()
    state = torch.zeros(1, 3)
    for chunk in chunks:
        loss, state = train_chunk(cell, head, chunk, state)
        loss.backward()
        state = state.detach()  # [fixed]
        state.detach_()  # [inplace]
    return {"hh": cell.weight_hh.grad, "ih": cell.weight_ih.grad, "head": head.weight.grad}


# truth
def truth():
    cell, head, chunks = make()
    state, total = torch.zeros(1, 3), 0.0
    for chunk in chunks:
        state = state.detach().clone()
        for x in chunk:
            state = cell(x, state)
            total = total + head(state).pow(2).mean()
    hh, ih, w = torch.autograd.grad(total, [cell.weight_hh, cell.weight_ih, head.weight])
    return {"hh": hh, "ih": ih, "head": w}
