# %% lbfgs · a closure that changes a buffer between evaluations
# correct, oracle=clone
import torch

w = torch.tensor([0.5, 1.0], requires_grad=True)
optimizer = torch.optim.LBFGS([w], lr=0.1, max_iter=3)


def closure():
    optimizer.zero_grad()
    loss = (w**4).sum()
    loss.backward()
    return loss


optimizer.step(closure)
w.grad = None

# %% amp · autocast on the CPU, a GradScaler, and a clamp in place
# bug: raises-backward, tensor=probability
# fixed: correct, oracle=clone
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
x = torch.randn(4, 3)
for _ in range(2):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        probability = torch.sigmoid(net(x))  # saves
        probability.clamp_(0.1, 0.9)  # [bug] harm
        probability = probability.clamp(0.1, 0.9)  # [fixed]
        loss = probability.float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

# %% ddp_batch_norm · two forwards of one DistributedDataParallel with a batch norm, then one backward
# correct, oracle=clone
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

store = tempfile.NamedTemporaryFile()
dist.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
try:
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    loss = (net(torch.randn(5, 3)) - net(torch.randn(5, 3))).pow(2).mean()
    loss.backward()
finally:
    dist.destroy_process_group()

# %% ddp_write · a write between forward and backward of a DistributedDataParallel
# bug: raises-backward, tensor=out
# fixed: correct, oracle=clone
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

store = tempfile.NamedTemporaryFile()
dist.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
try:
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid()))
    out = net(torch.randn(5, 3))  # saves
    out += 1  # [bug] harm
    out = out + 1  # [fixed]
    out.pow(2).mean().backward()
finally:
    dist.destroy_process_group()

# %% data_parallel · DataParallel without a GPU runs the module itself
# bug: raises-backward, tensor=out
# fixed: correct
import torch
from torch import nn

torch.manual_seed(0)
net = nn.DataParallel(nn.Sequential(nn.Linear(3, 4), nn.Tanh()))
out = net(torch.randn(5, 3))  # saves
out[0] = 0  # [bug] harm
out = torch.cat([torch.zeros(1, 4), out[1:]])  # [fixed]
out.sum().backward()

# %% spectral_norm · two forwards with a power iteration in each, then one backward
# correct, oracle=clone
import torch
from torch import nn

torch.manual_seed(0)
net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
loss = net(torch.randn(2, 3)).sum() - net(torch.randn(2, 3)).sum()
loss.backward()

# %% functional_call · weights handed to a module, and written before backward
# bug: raises-backward, tensor=weights
# fixed: correct
import torch
from torch import nn

net = nn.Linear(2, 2, bias=False)
w = torch.full((2, 2), 0.5, requires_grad=True)
weights = {"weight": w * 2}
x = torch.ones(3, 2, requires_grad=True)
out = torch.func.functional_call(net, weights, (x,))  # saves
weights["weight"].mul_(0.9)  # [bug] harm
weights["weight"] = weights["weight"] * 0.9  # [fixed]
out.pow(2).sum().backward()
net.weight.requires_grad_(False)
