"""A checkpointed block reads a running shift again in its recomputation, after the shift has moved in place."""

# silently-wrong, watch=blind
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class CenteredBlock(nn.Module):
    def __init__(self, d, momentum=0.5):
        super().__init__()
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)
        self.register_buffer("shift", torch.zeros(2 * d))
        self.momentum = momentum

    def forward(self, x):
        z = self.up(x) - self.shift
        return self.down(torch.nn.functional.gelu(z))

    @torch.no_grad()
    def update_stats(self, x):
        self.shift.lerp_(self.up(x).mean(0), self.momentum)  # harm


class Backbone(nn.Module):
    def __init__(self, d=4, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList([CenteredBlock(d) for _ in range(depth)])

    def forward(self, x):
        for blk in self.blocks:
            y = checkpoint(blk, x, use_reentrant=False)
            blk.update_stats(x)
            x = x + y
        return x


def make():
    torch.manual_seed(29)
    return Backbone(), torch.randn(6, 4) + 1, torch.randn(6, 4)


def run():
    net, tokens, target = make()
    out = net(tokens)
    loss = (out - target).square().mean()
    loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    global checkpoint
    checkpoint = lambda function, *inputs, use_reentrant: function(*inputs)
    return run()
