"""cell state clipped for stability inside no_grad, then used on"""

# bug: silently-wrong, tensor=c, watch=blind
# fixed: correct
# tracked: correct
import torch
from torch import nn


class PeepholeCell(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.gates = nn.Linear(d + h, 3 * h)

    def forward(self, x, state):
        h, c = state
        i, f, g = self.gates(torch.cat([x, h], -1)).chunk(3, -1)
        c = f.sigmoid() * c + i.sigmoid() * g * 3
        with torch.no_grad():  # [bug]
            c.mul_(0.25)  # [bug] harm
        c = c * 0.25  # [fixed]
        c.mul_(0.25)  # [tracked]
        return torch.tanh(c), c


def unroll(cell, xs, h):
    state = (torch.zeros(1, h), torch.zeros(1, h))
    for x in xs:
        state = cell(x[None], state)
        yield state[0]


def make():
    torch.manual_seed(88)
    return PeepholeCell(2, 3), torch.randn(3, 2)


def run():
    cell, xs = make()
    outs = list(unroll(cell, xs, 3))
    torch.cat(outs).sum().backward()
    return {"w": cell.gates.weight.grad, "b": cell.gates.bias.grad}


# truth
def truth():
    cell, xs = make()
    h, c, total = torch.zeros(1, 3), torch.zeros(1, 3), 0
    for x in xs:
        i, f, g = cell.gates(torch.cat([x[None], h], -1)).split(3, -1)
        c = (f.sigmoid() * c + i.sigmoid() * g * 3) * 0.25
        h = c.tanh()
        total = total + h.sum()
    w, b = torch.autograd.grad(total, [cell.gates.weight, cell.gates.bias])
    return {"w": w, "b": b}
