"""Backward runs while averaged weights are swapped in, but each linear layer has saved a view of the old memory."""

# correct, oracle=clone
import torch
import torch.nn as nn
import copy


class EMA:
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.model, self.decay = model, decay

    def _swap(self):
        for p, s in zip(self.model.parameters(), self.shadow.parameters()):
            p.data, s.data = s.data, p.data

    def __enter__(self):
        self._swap()
        return self.model

    def __exit__(self, *exc):
        self._swap()
        return False

    def update(self):
        for p, s in zip(self.model.parameters(), self.shadow.parameters()):
            s.lerp_(p.detach(), 1 - self.decay)


def make():
    torch.manual_seed(29)
    net = nn.Sequential(nn.Linear(3, 6), nn.SiLU(), nn.Linear(6, 1))
    ema = EMA(net, 0.9)
    for s in ema.shadow.parameters():
        s.mul_(0.5)
    x = torch.randn(8, 3)
    return net, ema, x, x.prod(1, keepdim=True)


def run():
    net, ema, x, y = make()
    loss = nn.functional.mse_loss(net(x), y)
    with ema as averaged:
        with torch.no_grad():
            val = nn.functional.mse_loss(averaged(x), y)
        print("train %.3f ema %.3f" % (loss.item(), val.item()))
        loss.backward()
    ema.update()
    return {"w1": net[0].weight.grad, "w2": net[2].weight.grad}
