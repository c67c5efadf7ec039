# %% scripted_inside · the write stands in the scripted function
# bug: raises-backward, tensor=h
# fixed: correct
import torch


@torch.jit.script
def forward(h):
    h.mul_(2)  # [bug]
    h = h * 2  # [fixed]
    return h


w = torch.tensor([0.5, 1.0], requires_grad=True)
h = torch.exp(w)  # saves
out = forward(h)  # [bug] harm
out = forward(h)  # [fixed]
out.sum().backward()

# %% func_grad · torch.func.grad of a function that writes into its own intermediate
# bug: raises-backward, tensor=h
# fixed: correct
import torch


def loss(w):
    h = torch.exp(w)  # saves
    h.mul_(2)  # [bug] harm
    h = h * 2  # [fixed]
    return h.sum()


w = torch.tensor([0.5, 1.0])
slope = torch.func.grad(loss)(w)

# %% func_vmap · gradients of each sample
# correct
import torch

w = torch.tensor([0.5, 1.0])
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
slopes = torch.func.vmap(torch.func.grad(lambda w, x: torch.sin(w * x).sum()), in_dims=(None, 0))(w, x)
v = torch.ones(2, requires_grad=True)
(slopes * v).sum().backward()


# truth
def truth():
    w, x = torch.tensor([0.5, 1.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return {"v": (x * torch.cos(w * x)).sum(0)}


# %% forward_mode · dual numbers and a write
# correct
import torch
import torch.autograd.forward_ad as fwAD

w = torch.tensor([0.5, 1.0], requires_grad=True)
with fwAD.dual_level():
    dual = fwAD.make_dual(w.detach().clone(), torch.ones(2))
    h = torch.exp(dual)
    h.mul_(2)
    slope = fwAD.unpack_dual(h).tangent
(w * slope.detach()).sum().backward()
