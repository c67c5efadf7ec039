"""Dead units are re-initialised in a parameter that requires grad, outside of no_grad."""

# raises-forward
import torch
from torch import nn


class Reviver:
    """Re-initialises hidden units that never fire."""

    def __init__(self, layer, threshold):
        self.layer, self.threshold = layer, threshold
        self.fired = torch.zeros(layer.out_features)
        layer.register_forward_hook(self._watch)

    def _watch(self, module, args, output):
        self.fired += (output.detach() > 0).sum(0)

    def revive(self):
        dead = self.fired < self.threshold
        fresh = torch.randn(int(dead.sum()), self.layer.in_features) * 0.3
        self.layer.weight[dead] = fresh
        self.fired.zero_()


def make():
    torch.manual_seed(19)
    fc1, fc2 = nn.Linear(4, 8), nn.Linear(8, 2)
    nn.init.constant_(fc1.bias, -0.6)
    return fc1, fc2, torch.randn(10, 4), torch.randint(0, 2, (10,))


def run():
    fc1, fc2, x, y = make()
    reviver = Reviver(fc1, threshold=3)
    opt = torch.optim.SGD([*fc1.parameters(), *fc2.parameters()], lr=0.1)
    for step in range(2):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(fc2(torch.relu(fc1(x))), y)
        loss.backward()
        opt.step()
        reviver.revive()
    return {"fc1": fc1.weight.grad, "fc2": fc2.weight.grad}
