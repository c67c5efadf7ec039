"""Dead units are re-initialised under no_grad after backward and step."""

# correct, oracle=clone
import torch
from torch import nn


class Reviver:
    """Re-initialises hidden units that never fire."""

    def __init__(self, layer, outgoing, threshold):
        self.layer, self.outgoing, self.threshold = layer, outgoing, threshold
        self.fired = torch.zeros(layer.out_features)
        layer.register_forward_hook(self._watch)

    def _watch(self, module, args, output):
        self.fired += (output.detach() > 0).sum(0)

    @torch.no_grad()
    def revive(self):
        dead = self.fired < self.threshold
        n = int(dead.sum())
        self.layer.weight[dead] = torch.randn(n, self.layer.in_features) * 0.3
        self.layer.bias[dead] = 0.1
        self.outgoing.weight[:, dead] = 0.01
        self.fired.zero_()
        return n


def make():
    torch.manual_seed(19)
    fc1, fc2 = nn.Linear(4, 8), nn.Linear(8, 2)
    nn.init.constant_(fc1.bias, -0.6)
    return fc1, fc2, torch.randn(10, 4), torch.randint(0, 2, (10,))


def run():
    fc1, fc2, x, y = make()
    reviver = Reviver(fc1, fc2, threshold=3)
    opt = torch.optim.SGD([*fc1.parameters(), *fc2.parameters()], lr=0.1)
    revived = []
    for step in range(3):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(fc2(torch.relu_(fc1(x))), y)
        loss.backward()
        if step < 2:
            opt.step()
            revived.append(reviver.revive())
    return {"fc1": fc1.weight.grad, "fc2": fc2.weight.grad, "b1": fc1.bias.grad}
