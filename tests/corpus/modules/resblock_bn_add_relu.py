"""The shortcut is added in place to the output of BatchNorm, which is not saved, and relu_ comes last."""

# correct, oracle=clone
import torch
import torch.nn as nn


class BasicBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNetish(nn.Module):
    def __init__(self, c=3, blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.body = nn.Sequential(*[BasicBlock(c) for _ in range(blocks)])
        self.drop = nn.Dropout2d(0.3, inplace=False)
        self.fc = nn.Linear(c, 4)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.fc(self.drop(x).flatten(2).mean(-1))


def make():
    torch.manual_seed(9)
    return ResNetish().train(), torch.randn(4, 1, 5, 5), torch.tensor([0, 3, 1, 2])


def run():
    net, img, lab = make()
    loss = nn.CrossEntropyLoss()(net(img), lab)
    loss.backward()
    return dict(
        stem=net.stem.weight.grad,
        c1=net.body[0].conv1.weight.grad,
        c2=net.body[1].conv2.weight.grad,
        fc=net.fc.weight.grad,
    )
