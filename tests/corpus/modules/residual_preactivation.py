"""A pre-activation block: ReLU(inplace=True) writes the input that the shortcut adds."""

# bug: silently-wrong, tensor=x
# fixed: correct
# known: correct
import torch
from torch import nn


class PreActivation(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        gated = x * self.gain  # [bug] saves
        gated = x * self.gain  # [fixed known]
        torch.relu_(x.data)  # [bug] harm
        h = torch.relu(x)  # [fixed bug]
        x = x + 0.5  # [known]
        h = torch.relu_(x)  # [known]
        return gated + self.linear(h)


def make():
    torch.manual_seed(61)
    net = nn.ModuleList([PreActivation(3) for _ in range(2)])
    return net, torch.randn(4, 3)


def run():
    net, x = make()
    for block in net:
        x = block(x)
    loss = x.sin().sum()
    loss.backward()
    return {"gain": net[0].gain.grad, "linear": net[0].linear.weight.grad, "last": net[1].gain.grad}


# truth
def truth():
    net, x = make()
    for block in net:
        h = torch.relu(x)  # [bug fixed]
        h = torch.relu(x + 0.5)  # [known]
        x = x * block.gain + h @ block.linear.weight.t() + block.linear.bias
    first, second, third = torch.autograd.grad(x.sin().sum(), [net[0].gain, net[0].linear.weight, net[1].gain])
    return {"gain": first, "linear": second, "last": third}
