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

# %% D14_write_before_save · .data written before the save, by what was meant as a constant
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
b.data.mul_(3)  # harm
loss = (b * b).sum()
loss.backward()
