# %% M1 · d is written after f saved it
# raises-backward, tensor=d
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
f = torch.matmul(d, w2)  # saves
d[:] = 1  # harm
f.backward()

# %% M4_exp · exp saves its output
# raises-backward, tensor=h
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()  # saves
h.add_(1)  # harm
h.sum().backward()

# %% M4_max_indices · and the indices must stay
# raises-backward, tensor=indices
import torch

a = torch.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
values, indices = a.max(dim=1)  # saves
indices.zero_()  # harm
values.sum().backward()

# %% M4_mul_by_itself · b.mul_(b) writes what it keeps
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 1
b.mul_(b)  # harm saves
b.sum().backward()

# %% M5_twice · backward twice over one graph
# raises-backward
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid().sum()
out.backward()
out.backward()

# %% M5_data_between · the same through .data
# silently-wrong, tensor=h
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.sigmoid()  # saves
out = h.sum()
out.backward(retain_graph=True)
h.data.zero_()  # harm
out.backward()


# truth
def truth():
    return {"a": [0.3932239, 0.2099872, 0.0903533]}


# %% M_after · the write comes after backward
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()
h.sum().backward()
h.zero_()

# %% M_unused_branch · the harmed branch never reaches the loss
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()
side = h * h
h.data.add_(0)
loss = h.sum()
loss.backward()

# %% M_function · the write is in a helper
# raises-backward, tensor=h
import torch


def normalise(values):
    values -= values.mean()  # harm
    return values


w = torch.tensor([0.5, 2.0], requires_grad=True)
h = w.exp()  # saves
normalise(h).pow(2).sum().backward()
