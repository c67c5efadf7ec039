# %% inside_reentrant · a write inside the block into what it saved
# bug: raises-backward, tensor=h
# fixed: correct
import torch
from torch.utils.checkpoint import checkpoint


def block(x):
    h = torch.exp(x)  # saves
    h.mul_(2)  # [bug] harm
    h = h * 2  # [fixed]
    return h


w = torch.tensor([0.5, 1.0], requires_grad=True)
checkpoint(block, w * 1, use_reentrant=True).sum().backward()

# %% sequential · many blocks, one of which writes
# bug: silently-wrong, tensor=h
# fixed: correct
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential


class Gate(nn.Module):
    def forward(self, x):
        h = torch.sigmoid(x)  # saves
        h += 0.5  # [bug] harm
        h = h + 0.5  # [fixed]
        return h


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), Gate(), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
x = torch.randn(2, 3, requires_grad=True)
checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()


# truth
def truth():
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.randn(2, 3, requires_grad=True)
    net[2:](net[:2](x) + 0.5).sum().backward()
    found = {f"net.{name}": parameter.grad for name, parameter in net.named_parameters()}
    return found | {"x": x.grad}


# %% selective · a policy keeps the matrix products
# bug: silently-wrong, tensor=h
# fixed: correct
from functools import partial

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def policy(_context, operation, *_args, **_kwargs):
    return CheckpointPolicy.MUST_SAVE if operation is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def block(x, w):
    h = torch.exp(x @ w)  # saves
    h *= 2  # [bug] harm
    h = h * 2  # [fixed]
    return torch.sin(h)


x, w = torch.eye(2), torch.ones(2, 2, requires_grad=True)
contexts = partial(create_selective_checkpoint_contexts, policy)
checkpoint(block, x, w, use_reentrant=False, context_fn=contexts).sum().backward()


# truth
def truth():
    w = torch.ones(2, 2, requires_grad=True)
    return {"w": torch.autograd.grad(torch.sin(2 * torch.exp(w)).sum(), w)[0]}


# %% counter_inside · the block counts its calls, and uses the count
# silently-wrong, tensor=count
import torch
from torch.utils.checkpoint import checkpoint

count = torch.zeros(1)


def block(x):
    count.add_(1)  # harm
    return torch.sin(x * count)  # saves


w = torch.tensor([0.5, 1.0], requires_grad=True)
checkpoint(block, w, use_reentrant=False).sum().backward()


# truth
def truth():
    return {"w": torch.cos(torch.tensor([0.5, 1.0]))}


# %% tower · one write in a deep net of blocks, whose parameters were all initialised in place
# bug: raises-backward, tensor=gate
# fixed: correct
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.norm = nn.LayerNorm(size)
        for layer in (self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        gate = torch.sigmoid(self.up(self.norm(x)))  # saves
        gate *= 2  # [bug] harm
        gate = gate * 2  # [fixed]
        return x + self.down(gate)


class Tower(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))
        self.head = nn.Linear(size, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x)


torch.manual_seed(0)
net = Tower(4, 3)
x = torch.randn(5, 4, requires_grad=True)
net(x).pow(2).mean().backward()

# %% tower_view · a write through a view in a block of such a net
# bug: raises-backward, tensor=h
# fixed: correct
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.orthogonal_(self.linear.weight)
        nn.init.constant_(self.linear.bias, 0.1)

    def forward(self, x):
        h = torch.tanh(self.linear(x))  # saves
        h[:, 0] = 0.0  # [bug] harm
        h = torch.cat([torch.zeros_like(h[:, :1]), h[:, 1:]], 1)  # [fixed]
        return h.clone()


torch.manual_seed(0)
blocks = nn.ModuleList(Block(3) for _ in range(4))
x = torch.randn(2, 3, requires_grad=True)
h = x
for block in blocks:
    h = checkpoint(block, h, use_reentrant=True)
h.pow(2).sum().backward()
