"""Checkpointed block with a noise buffer that is refilled: recomputation sees other noise."""

# bug: silently-wrong, tensor=noise, watch=blind
# fixed: correct
# plain: correct
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class NoisyBlock(nn.Module):
    def __init__(self, d, noise):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.noise = noise

    def forward(self, x, noise=None):
        noise = self.noise if noise is None else noise
        return torch.tanh(self.fc(x)) * (1 + 0.5 * noise)


class Net(nn.Module):
    def __init__(self, d=3):
        super().__init__()
        self.noise = torch.zeros(d)
        self.blocks = nn.ModuleList(NoisyBlock(d, self.noise) for _ in range(2))

    def refill(self, gen):
        self.noise.copy_(torch.randn(self.noise.shape, generator=gen))  # [bug] harm
        self.noise.copy_(torch.randn(self.noise.shape, generator=gen))  # [fixed plain]

    def forward(self, x, gen):
        for block in self.blocks:
            self.refill(gen)
            x = checkpoint(block, x, use_reentrant=False)  # [bug]
            x = checkpoint(block, x, self.noise.clone(), use_reentrant=False)  # [fixed]
            x = block(x, self.noise.clone())  # [plain]
        return x


def make():
    torch.manual_seed(48)
    return Net(), torch.randn(4, 3), torch.Generator().manual_seed(5)


def run():
    net, x, gen = make()
    y = net(x, gen)
    y.square().mean().backward()
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, x, gen = make()
    for block in net.blocks:
        x = torch.tanh(block.fc(x)) * (1 + 0.5 * torch.randn(3, generator=gen))
    ns = [n for n, _ in net.named_parameters()]
    return dict(zip(ns, torch.autograd.grad(x.pow(2).mean(), list(net.parameters()))))
