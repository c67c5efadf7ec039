"""A matrix product is written with out= while an argument requires grad."""

# raises-forward
import torch


class Workspace:
    """avoid malloc in the hot loop"""

    def __init__(self):
        self.bufs = {}

    def get(self, name, *shape):
        if name not in self.bufs:
            self.bufs[name] = torch.empty(*shape)
        return self.bufs[name]


def layer(ws, name, x, w, act=torch.tanh):
    buf = ws.get(name, x.size(0), w.size(1))
    torch.matmul(x, w, out=buf)
    return act(buf)


def make():
    torch.manual_seed(14)
    weights = [torch.nn.Parameter(torch.randn(a, b) / a**0.5) for a, b in [(3, 5), (5, 5), (5, 1)]]
    return weights, torch.randn(6, 3), torch.randn(6, 1)


def run():
    weights, x, y = make()
    ws = Workspace()
    h = x
    for i, w in enumerate(weights):
        h = layer(ws, f"h{i}", h, w, act=torch.tanh if i < 2 else (lambda t: t))
    loss = torch.nn.functional.mse_loss(h, y)
    loss.backward()
    return {f"w{i}": w.grad for i, w in enumerate(weights)}
