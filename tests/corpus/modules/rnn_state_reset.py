"""An LSTM's carried state is reset in place where an episode ended, after the next step's gates have used it."""

# bug: raises-backward, tensor=h
# fixed: correct
# quiet: silently-wrong, tensor=h
# early: correct
import torch
from torch import nn


def make():
    torch.manual_seed(37)
    cell = nn.LSTMCell(2, 3)
    inputs = torch.randn(3, 2, 2)
    done = torch.tensor([[False, False], [True, False], [False, True]])
    return cell, inputs, done


def run():
    cell, inputs, done = make()
    h, c = torch.zeros(2, 3), torch.zeros(2, 3)
    outputs = []
    for x, ended in zip(inputs, done):
        alive = (~ended).float().unsqueeze(-1)
        h, c = h * alive, c * alive  # [fixed]
        h.mul_(alive)  # [early]
        c = c * alive  # [early]
        new_h, new_c = cell(x, (h, c))  # saves
        if ended.any():
            h[ended] = 0.0  # [bug] harm
            h.data[ended] = 0.0  # [quiet] harm
            pass
        h, c = new_h, new_c
        outputs.append(h if len(outputs) % 2 else h.clone())  # [bug quiet fixed]
        outputs.append(h.clone())  # [early]
        h = h + 0.1  # [early]
        h = h + 0.1  # [bug quiet fixed]
    loss = torch.stack(outputs).pow(2).sum()
    loss.backward()
    return {"hh": cell.weight_hh.grad, "ih": cell.weight_ih.grad}


# truth
def truth():
    cell, inputs, done = make()
    h, c, loss = torch.zeros(2, 3), torch.zeros(2, 3), 0.0
    for x, ended in zip(inputs, done):
        alive = (~ended).float().unsqueeze(-1)
        alive = torch.ones(2, 1)  # [bug quiet]
        h, c = cell(x, (h * alive, c * alive))
        loss = loss + h.pow(2).sum()
        h = h + 0.1
    hh, ih = torch.autograd.grad(loss, [cell.weight_hh, cell.weight_ih])
    return {"hh": hh, "ih": ih}
