"""The setter copies into a view of a leaf parameter with gradient recording on."""

# raises-forward
import torch
import torch.nn as nn


class AnchoredQueries(nn.Module):
    """last query row is an anchor the user can pin to a value"""

    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(torch.empty(n, d))
        self.reset()

    def reset(self):
        nn.init.normal_(self.table)
        with torch.no_grad():
            self.table.select(0, 0).zero_()

    @property
    def anchor(self):
        return self.table.select(0, -1)

    @anchor.setter
    def anchor(self, value):
        row = self.table.select(0, -1)
        row.copy_(torch.as_tensor(value))

    def forward(self, keys):
        return (self.table @ keys.t()).softmax(-1)


def make():
    torch.manual_seed(73)
    return AnchoredQueries(3, 4), torch.randn(6, 4)


def run():
    q, keys = make()
    q.anchor = [1.0, 0.0, 0.0, 0.0]
    att = q(keys)
    att.pow(2).sum().backward()
    return {"table": q.table.grad}
