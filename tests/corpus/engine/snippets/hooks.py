# %% save_on_cpu · on a CPU these hooks of PyTorch's own copy nothing, and switch the check off
# bug: silently-wrong, tensor=h
# fixed: correct
import torch

w = torch.tensor([0.5, 1.0], requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    h = torch.exp(w)  # saves
    loss = h.sum()
h.mul_(2)  # [bug] harm
h = h * 2  # [fixed]
loss.backward()


# truth
def truth():
    return {"w": torch.exp(torch.tensor([0.5, 1.0]))}


# %% hooks_in_a_list · the program's own store of saved tensors
# bug: silently-wrong, tensor=h
# fixed: correct
import torch

store = []


def pack(tensor):
    store.append(tensor)
    return len(store) - 1


w = torch.tensor([0.5, 1.0], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, lambda index: store[index]):
    h = torch.exp(w)  # saves
    loss = h.sum()
h.mul_(2)  # [bug] harm
h = h * 2  # [fixed]
loss.backward()


# truth
def truth():
    return {"w": torch.exp(torch.tensor([0.5, 1.0]))}


# %% setup_context · the newer form of a custom Function
# bug: raises-backward, tensor=out
# fixed: correct
import torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return out * grad


w = torch.tensor([1.0, 2.0], requires_grad=True)
out = Exp.apply(w)  # saves
out.mul_(2)  # [bug] harm
out = out * 2  # [fixed]
out.sum().backward()

# %% backward_writes_its_input · a custom backward writes into the gradient it is given
# bug: silently-wrong, tensor=grad, watch=blind
# fixed: correct
import torch


class Mask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        grad[0] = 0  # [bug] harm
        grad = grad * torch.tensor([0.0, 1.0])  # [fixed]
        return grad


w = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 2.0], requires_grad=True)
(v * 1 + Mask.apply(w * 2)).backward(torch.tensor([1.0, 1.0]))  # saves


# truth
def truth():
    return {"w": [0.0, 2.0], "v": [1.0, 1.0]}
