# %% view_of_input_inductor · a view of an input is saved, and the input is written: no check is left
# bug: silently-wrong, tensor=x
# fixed: correct
import torch


def forward(x, w):
    return (x @ w).sum()  # saves


torch.manual_seed(0)
x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
w = torch.ones(2, 2, requires_grad=True)
loss = torch.compile(forward, backend="inductor")(x, w)
x.add_(1)  # [bug] harm
x = x + 1  # [fixed]
loss.backward()


# truth
def truth():
    return {"w": [[9.0, 9.0], [12.0, 12.0]]}


# %% result_data_aot · what a compiled function returns is written through .data
# bug: silently-wrong, tensor=h
# fixed: correct
import torch


def forward(w):
    return torch.exp(w * 2)  # saves


w = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
h = torch.compile(forward, backend="aot_eager")(w)
loss = h.sum()
h.data.zero_()  # [bug] harm
loss.backward()


# truth
def truth():
    return {"w": 2 * torch.exp(2 * torch.tensor([0.1, 0.2, 0.3]))}


# %% inside_aot · a write inside the compiled part: the compiler traces its backward at once, and meets it there
# bug: raises-forward, tensor=h
# fixed: correct
import torch


def forward(w):
    h = torch.exp(w * 2)  # saves
    h.mul_(3)  # [bug] harm
    h = h * 3  # [fixed]
    return h.sum()


w = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
torch.compile(forward, backend="aot_eager")(w).backward()

# %% own_backend · a backend of the program's own
# correct
import torch


def backend(graph, _inputs):
    return graph.forward


@torch.compile(backend=backend)
def forward(x, w):
    return torch.relu(x @ w).pow(2).mean()


x, w = torch.eye(3), torch.full((3, 3), 0.5, requires_grad=True)
forward(x, w).backward()

# %% fullgraph_broken · what cannot be compiled whole is refused where it is called
# raises-forward
import torch


@torch.compile(backend="eager", fullgraph=True)
def forward(w):
    print("a graph break")
    return (w * w).sum()


w = torch.ones(3, requires_grad=True)
forward(w).backward()  # harm

# %% wrong_shapes · the compiled function cannot be computed at all
# raises-forward
import torch

w = torch.ones(3, requires_grad=True)
compiled = torch.compile(lambda x, w: (x @ w).sum(), backend="aot_eager")
compiled(torch.ones(2, 2), w).backward()  # harm
