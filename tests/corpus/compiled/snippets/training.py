# %% graph_break · two graphs around a line that cannot be compiled, and the write between them
# bug: raises-backward, tensor=h
# fixed: correct
import torch


@torch.compile(backend="aot_eager")
def forward(x, w):
    h = torch.sigmoid(x @ w)  # saves
    torch._dynamo.graph_break()
    h.mul_(2)  # [bug] harm
    h = h * 2  # [fixed]
    return h.sum()


x, w = torch.eye(2), torch.full((2, 2), 0.5, requires_grad=True)
forward(x, w).backward()

# %% loop_aot · a whole training loop with a compiled module
# bug: raises-backward, tensor=model.2.weight
# fixed: correct
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(6, 4), torch.randn(6, 1)
for step in range(3):
    loss = (compiled(x) - y).pow(2).mean()  # [bug] saves
    loss = (compiled(x) - y).pow(2).mean()  # [fixed]
    optimizer.zero_grad()
    with torch.no_grad():  # [bug]
        model[2].weight.mul_(0.9)  # [bug] harm
    loss.backward()
    optimizer.step()

# %% custom_function · a custom Function in a compiled part
# correct
import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


@torch.compile(backend="aot_eager")
def forward(w):
    return Cube.apply(w * 2).sum()


w = torch.tensor([1.0, 2.0], requires_grad=True)
forward(w).backward()

# %% disabled_part · a part that the compiler is told to leave out writes into what was saved
# bug: raises-backward, tensor=h
# fixed: correct
import torch


@torch.compiler.disable
def normalise(h):
    h /= 2  # [bug] harm
    h = h / 2  # [fixed]
    return h


@torch.compile(backend="aot_eager")
def forward(w):
    h = torch.exp(w)  # saves
    return normalise(h).sum()


w = torch.tensor([0.5, 1.0], requires_grad=True)
forward(w).backward()

# %% cache · keys are written into a cache by a compiled step, and read again
# bug: raises-backward, tensor=cache
# fixed: correct
import torch

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
cache = torch.zeros(3, 4)
x = torch.randn(3, 4)


@torch.compile(backend="aot_eager")
def attend(cache, w, query):
    return (torch.tanh(cache @ w) @ query).sum()  # saves


loss = 0
for position in range(3):
    cache[position] = x[position]  # [bug] harm
    cache = cache.clone()  # [fixed]
    cache[position] = x[position]  # [fixed]
    loss = loss + attend(cache, w, x[position])
loss.backward()

# %% checkpointed · a checkpointed block in a compiled function
# correct
import torch
from torch.utils.checkpoint import checkpoint


@torch.compile(backend="aot_eager")
def forward(w):
    return checkpoint(lambda w: torch.exp(torch.sin(w)), w, use_reentrant=False).sum()


w = torch.tensor([0.5, 1.0], requires_grad=True)
forward(w).backward()

# %% penalty · a gradient of a gradient, which aot_eager does not give
# raises-backward
import torch

w = torch.tensor([0.5, 1.0], requires_grad=True)
loss = torch.compile(lambda w: (w**3).sum(), backend="aot_eager")(w)
(slope,) = torch.autograd.grad(loss, w, create_graph=True)
slope.sum().backward()
