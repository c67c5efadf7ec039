"""Logging activations with matplotlib changes my training?? (removing the logger gives other gradients)"""

# bug: silently-wrong, tensor=acts
# fixed: correct
# unused: correct
import numpy as np
import torch
from torch import nn


class Logger:
    def __init__(self):
        self.images = []

    def image(self, tensor):
        arr = tensor.detach().cpu().numpy()  # [bug unused]
        arr = tensor.detach().cpu().numpy().copy()  # [fixed]
        arr -= arr.min()  # [bug] harm
        arr /= arr.max() + 1e-9  # [bug] harm
        arr -= arr.min()  # [fixed unused]
        arr /= arr.max() + 1e-9  # [fixed unused]
        self.images.append((arr * 255).astype(np.uint8))


class Net(nn.Module):
    def __init__(self, log):
        super().__init__()
        self.log = log
        self.conv = nn.Conv2d(1, 2, 2)
        self.fc = nn.Linear(8, 1)

    def forward(self, img):
        acts = torch.sigmoid(self.conv(img))  # [bug] saves
        acts = torch.sigmoid(self.conv(img))  # [fixed unused]
        out = self.fc(acts.flatten(1))
        show = acts  # [bug fixed]
        show = self.conv(img)  # [unused]
        self.log.image(show[0, 0])
        return out


def make():
    torch.manual_seed(8)
    return Net(Logger()), torch.rand(2, 1, 3, 3)


def run():
    net, img = make()
    loss = net(img).pow(2).mean()
    loss.backward()
    assert len(net.log.images) == 1
    return {k: v.grad for k, v in net.named_parameters()}


# truth
def truth():
    net, img = make()
    a = 1 / (1 + (-net.conv(img)).exp())
    out = a.reshape(2, 8) @ net.fc.weight.t() + net.fc.bias
    ks = [k for k, _ in net.named_parameters()]
    return dict(zip(ks, torch.autograd.grad(out.pow(2).mean(), list(net.parameters()))))
