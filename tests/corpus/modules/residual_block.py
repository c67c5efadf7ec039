"""A residual block adds its input in place."""

# bug: raises-backward, tensor=out
# fixed: correct
# conv: correct
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm1d(channels)
        self.conv2 = nn.Conv1d(channels, channels, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.act(self.norm(self.conv1(x)))
        out = torch.sigmoid(self.conv2(out))  # [bug] saves
        out = torch.sigmoid(self.conv2(out))  # [fixed]
        out = self.conv2(out)  # [conv]
        out += x  # [bug] harm
        out += x  # [conv]
        out = out + x  # [fixed]
        return self.act(out)  # [conv fixed]
        return torch.relu(out)  # [bug]


def make():
    torch.manual_seed(59)
    return nn.Sequential(Block(2), Block(2)), torch.randn(2, 2, 5)


def run():
    net, x = make()
    net.train()
    loss = net(x).pow(2).mean()
    net.zero_grad(set_to_none=True)
    loss.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}


# truth
def truth():
    net, x = make()
    for block in net:
        inner = torch.relu(block.norm(block.conv1(x)))
        inner = torch.sigmoid(block.conv2(inner))  # [bug fixed]
        inner = block.conv2(inner)  # [conv]
        x = torch.relu(inner + x)
    names = [name for name, _ in net.named_parameters()]
    return dict(zip(names, torch.autograd.grad(x.pow(2).mean(), list(net.parameters()))))
