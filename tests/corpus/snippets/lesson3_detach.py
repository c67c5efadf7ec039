# %% D1_likenesses · both aliases are read only
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
d = a.exp()
assert d.data.data_ptr() == d.detach().data_ptr() == d.data_ptr()
assert not d.data.requires_grad and not d.detach().requires_grad
d.sum().backward()

# %% D2 · the two matmuls, d written through .data
# silently-wrong, tensor=d
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
d_ = d.data
f = torch.matmul(d, w2)  # saves
d_[:] = 1  # harm
f.backward()


# truth
def truth():
    return {"w1": [[3.0], [6.0]], "w2": [4.0]}


# %% D3 · the two matmuls, d written through .detach()
# raises-backward, tensor=d
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
d_ = d.detach()
f = torch.matmul(d, w2)  # saves
d_[:] = 1  # harm
f.backward()

# %% D4 · sigmoid's output zeroed through .data
# silently-wrong, tensor=out
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()  # saves
c = out.data
c.zero_()  # harm
out.sum().backward()


# truth
def truth():
    return {"a": [0.1966119, 0.1049936, 0.0451767]}


# %% D5 · sigmoid's output zeroed through .detach()
# raises-backward, tensor=out
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()  # saves
c = out.detach()
c.zero_()  # harm
out.sum().backward()

# %% D6 · detach taken and never written
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.detach()
mean = c.mean()
out.sum().backward()

# %% D7 · backward from the detached tensor
# raises-backward
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.detach()
c.sum().backward()

# %% D8_data · the sum is zeroed through .data
# correct
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid().sum()
out.data.zero_()
out.backward()


# truth
def truth():
    return {"a": [0.1966119, 0.1049936, 0.0451767]}


# %% D9 · a held branch: one part trained, another fixed
# correct, oracle=clone
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
features = (a * a).detach()
loss = (features * b).sum()
loss.backward()


# truth
def truth():
    return {"a": None, "b": [1.0, 4.0]}


# %% D10 · detach_() before y is built
# raises-backward
import torch

x = torch.tensor([1.0], requires_grad=True)
m = 2 * x
m.detach_()
y = 3 * m
y.backward()

# %% D11 · detach_() after y was built
# correct
import torch

x = torch.tensor([1.0], requires_grad=True)
m = 2 * x
y = 3 * m
m.detach_()
y.backward()


# truth
def truth():
    return {"x": [6.0]}


# %% D12 · detach_() on a view
# raises-forward
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
m = 2 * x
m[:1].detach_()
m.sum().backward()

# %% D13 · requires_grad turned on again makes a new leaf
# correct, oracle=clone
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
leaf = (x * x).detach().requires_grad_()
loss = (leaf**2).sum()
loss.backward()


# truth
def truth():
    return {"x": None, "leaf": [2.0, 8.0]}


# %% D14_write_before_save · .data written before the save, by what was meant as a constant
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
b.data.mul_(3)  # harm
loss = (b * b).sum()
loss.backward()
