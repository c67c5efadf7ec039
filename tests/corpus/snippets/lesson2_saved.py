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

# %% M2 · d is written before f
# correct
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
d[:] = 1
f = torch.matmul(d, w2)
f.backward()


# truth
def truth():
    return {"w1": [[0.0], [0.0]], "w2": [1.0]}


# %% M3 · d is set to 0 before f
# correct
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
d[:] = 0
f = torch.matmul(d, w2)
f.backward()


# truth
def truth():
    return {"w1": [[0.0], [0.0]], "w2": [0.0]}


# %% M4_exp · exp saves its output
# raises-backward, tensor=h
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()  # saves
h.add_(1)  # harm
h.sum().backward()

# %% M4_softmax · softmax saves its output
# raises-backward, tensor=p
import torch

a = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
p = torch.softmax(a, dim=0)  # saves
p.clamp_(min=0.1)  # harm
p.log().sum().backward()

# %% M4_pow · pow saves its base
# raises-backward, tensor=h
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a * 2
g = h**2  # saves
h += 1  # harm
g.sum().backward()

# %% M4_mul_by_constant_tensor · times a tensor without grad saves that tensor only
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
scale = torch.tensor([5.0, 7.0])
h = a * 2
g = h * scale
h.zero_()
g.sum().backward()

# %% M4_max · max keeps indices, not values
# correct
import torch

a = torch.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
h = a * 2
values, indices = h.max(dim=1)
values.add_(1)
h.zero_()
values.sum().backward()

# %% M4_max_indices · and the indices must stay
# raises-backward, tensor=indices
import torch

a = torch.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
values, indices = a.max(dim=1)  # saves
indices.zero_()  # harm
values.sum().backward()

# %% M4_mul_inplace · mul_ keeps a copy of its old self
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
b = a * 1
b.mul_(w)
b.sum().backward()

# %% M4_mul_by_itself · b.mul_(b) writes what it keeps
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 1
b.mul_(b)  # harm saves
b.sum().backward()

# %% M4_add_to_itself · b += b keeps nothing
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 1
b += b
b.sum().backward()

# %% M4_inplace_activations · sigmoid_, relu_ and exp_ keep the result at its new version
# correct
import torch

a = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
h = a * 1
h.sigmoid_()
g = a * 2
g.relu_()
e = a + 1
e.exp_()
(h + g + e).sum().backward()

# %% M4_pow_inplace · pow_ keeps a copy of its old self
# correct
import torch

a = torch.tensor([2.0, 3.0], requires_grad=True)
b = a + 1
b.pow_(3)
b.sum().backward()

# %% M5_twice · backward twice over one graph
# raises-backward
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid().sum()
out.backward()
out.backward()

# %% M5_retained · with retain_graph both run and add up
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid().sum()
out.backward(retain_graph=True)
out.backward()


# truth
def truth():
    return {"a": [0.3932239, 0.2099872, 0.0903533]}


# %% M5_written_between · a write between two backwards over one graph
# raises-backward, tensor=h
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.sigmoid()  # saves
out = h.sum()
out.backward(retain_graph=True)
h.zero_()  # harm
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


# %% M6_anomaly · anomaly mode on, same refusal
# raises-backward, tensor=h
import torch

torch.autograd.set_detect_anomaly(True)
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()  # saves
h += 1  # harm
h.sum().backward()

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

# %% M_branch_not_walked · the saved tensor of a branch backward never walks is written
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a * 2
side = h.pow(2).sum()
loss = (h * 3).sum()
h.zero_()
loss.backward()

# %% M_loop · an accumulator is read and written each turn
# raises-backward, tensor=total
import torch

w = torch.tensor([0.5, 2.0], requires_grad=True)
total = torch.zeros(2)
loss = 0
for step in range(3):
    total += w  # harm
    loss = loss + (total * w).sum()  # saves
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
