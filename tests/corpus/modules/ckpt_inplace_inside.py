"""A checkpointed block writes in place only into tensors that it makes itself."""

# correct
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


def bottleneck(conv1, conv2, gain):
    def body(x):
        y = conv1(x)
        y.relu_()
        y = conv2(y)
        y *= gain
        y += x
        return y.relu_()

    return body


class Stage(nn.Module):
    def __init__(self, ch, n):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(ch, ch, 3, padding=1) for _ in range(2 * n))
        self.gains = nn.ParameterList(nn.Parameter(torch.full((ch, 1, 1), 0.5)) for _ in range(n))

    def forward(self, x):
        for i, gain in enumerate(self.gains):
            fn = bottleneck(self.convs[2 * i], self.convs[2 * i + 1], gain)
            x = checkpoint(fn, x, use_reentrant=True)
        return x


def make():
    torch.manual_seed(60)
    stem = nn.Conv2d(1, 2, 3, padding=1)
    return stem, Stage(2, 2), torch.randn(2, 1, 5, 5)


def run():
    stem, stage, img = make()
    out = stage(stem(img))
    out.mean(dim=(2, 3)).square().sum().backward()
    grads = {"stem": stem.weight.grad}
    grads.update({f"gain{i}": g.grad for i, g in enumerate(stage.gains)})
    grads.update({f"conv{i}": c.weight.grad for i, c in enumerate(stage.convs)})
    return grads


# truth
def truth():
    global checkpoint
    checkpoint = lambda function, *inputs, use_reentrant: function(*inputs)
    return run()
