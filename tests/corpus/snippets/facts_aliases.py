# %% numpy_write · a NumPy view is written after the save
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
view = b.detach().numpy()
loss = (b * b).sum()  # saves
view[:] = 0  # harm
loss.backward()

# %% from_numpy_buffer · the array behind an input is refilled before backward
# silently-wrong, tensor=x
import numpy
import torch

buffer = numpy.array([1.0, 2.0], dtype=numpy.float32)
x = torch.from_numpy(buffer)
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()  # saves
buffer += 10  # harm
loss.backward()


# truth
def truth():
    return {"w": [1.0, 2.0]}


# %% tensor_copies_array · torch.tensor copies, so the array may be refilled
# correct
import numpy
import torch

buffer = numpy.array([1.0, 2.0])
x = torch.tensor(buffer, dtype=torch.get_default_dtype())
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()
buffer += 10
loss.backward()

# %% dlpack_write · a DLPack alias is written
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
other = torch.from_dlpack(b.detach())
loss = (b * b).sum()  # saves
other.mul_(0)  # harm
loss.backward()

# %% storage_write · the storage itself is written
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = (b * b).sum()  # saves
b.untyped_storage().fill_(0)  # harm
loss.backward()

# %% data_swap · .data of a result is swapped after the save
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = (b * b).sum()  # saves
b.data = torch.zeros(2)  # harm
loss.backward()

# %% data_view_write · a slice of .data is written
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
b = a.tanh()  # saves
tail = b.data[1:]
loss = b.sum()
tail += 0.5  # harm
loss.backward()


# truth
def truth():
    return {"a": [0.4199743, 0.0706508, 0.0098660]}


# %% data_scaled_before_write · a .data alias is scaled, then a recorded write scales what it left
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = b.exp().sum()
alias = b.data
alias *= 0.5  # harm
b *= 0.5
loss = loss + (b * 2).sum()
loss.backward()

# %% data_scaled_before_row · a .data alias is scaled, then one element is written again
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = b.exp().sum()
alias = b.data
alias *= 0.5  # harm
b[0] = 1.0
loss = loss + (b * 2).sum()
loss.backward()

# %% data_scaled_before_row_saved · the same after a sine, which has saved what both lines write
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = b.sin().sum()  # saves
alias = b.data
alias *= 0.5  # harm
b[0] = 1.0  # harm
loss = loss + (b * 2).sum()
loss.backward()

# %% data_disjoint_view · the saved half is not the half that .data writes
# correct, oracle=clone
import torch

a = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
b = a * 2
loss = (b[:2] ** 2).sum()
b.data[2:].zero_()
loss.backward()


# truth
def truth():
    return {"a": [8.0, 16.0, 0.0, 0.0]}


# %% resize_write · resize_ counts as a write
# raises-backward, tensor=x
import torch

x = torch.ones(2)
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()  # saves
x.resize_(4)  # harm
loss.backward()

# %% set_write · set_ gives the saved tensor another storage
# raises-backward, tensor=x
import torch

x = torch.ones(2)
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()  # saves
x.set_(torch.zeros(2))  # harm
loss.backward()

# %% out_write · out= writes into the saved tensor
# raises-backward, tensor=b
import torch

x = torch.ones(2)
b = torch.tensor([2.0, 3.0])
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (b * w).sum()  # saves
torch.add(x, x, out=b)  # harm
loss.backward()

# %% out_with_grad · out= with a tensor that requires grad
# raises-forward
import torch

b = torch.empty(2)
w = torch.tensor([3.0, 4.0], requires_grad=True)
torch.mul(w, 2, out=b)
b.sum().backward()

# %% fused_step · a fused optimizer moves no counter
# silently-wrong, tensor=w
import torch

w = torch.tensor([2.0, 3.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1, fused=True)
y = (w * w).sum()  # saves
w.grad = torch.ones(2)
optimizer.step()  # harm
w.grad = None
y.backward()


# truth
def truth():
    return {"w": [4.0, 6.0]}


# %% fused_step_after · the fused step comes after backward
# correct, oracle=clone
import torch

w = torch.tensor([2.0, 3.0], requires_grad=True)
optimizer = torch.optim.AdamW([w], lr=0.1, fused=True)
y = (w * w).sum()
y.backward()
optimizer.step()

# %% foreach_step · an unfused optimizer moves the counter
# raises-backward, tensor=w
import torch

w = torch.tensor([2.0, 3.0], requires_grad=True)
optimizer = torch.optim.Adam([w], lr=0.1, foreach=True)
y = (w * w).sum()  # saves
w.grad = torch.ones(2)
optimizer.step()  # harm
y.backward()

# %% no_grad_untracked · a write under no_grad into a result that nobody saved
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
with torch.no_grad():
    b.mul_(3)  # harm
loss = b.sum()
loss.backward()

# %% no_grad_tracked · the same write, recorded
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
b.mul_(3)
loss = b.sum()
loss.backward()

# %% no_grad_alias · under no_grad a copy is written
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
with torch.no_grad():
    c = b.clone()
    c.mul_(3)
loss = (b * b).sum()
loss.backward()

# %% numpy_untracked · NumPy writes a result before it is used
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
b.detach().numpy()[0] = 0  # harm
loss = b.sum()
loss.backward()

# %% b_detached_add_constant · .data shifted by a constant before a linear use
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
b.data.add_(1)
loss = b.sum()
loss.backward()

# %% relu_data_scaled · relu's saved output changes, its sign does not
# correct
import torch

a = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
h = a.relu()
loss = (h * 1.0).sum()
h.data.mul_(2)
loss.backward()

# %% inference_tensor · an inference tensor cannot be saved
# raises-forward
import torch

with torch.inference_mode():
    x = torch.ones(2) * 2
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()
loss.backward()

# %% inference_clone · its clone can
# correct
import torch

with torch.inference_mode():
    x = torch.ones(2) * 2
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x.clone() * w).sum()
loss.backward()

# %% inference_write · an inference tensor may be written, and added
# correct
import torch

with torch.inference_mode():
    x = torch.ones(2) * 2
    x.mul_(3)
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x + w).sum()
loss.backward()

# %% state_dict_written · a state dict shares memory with the parameters
# raises-backward, tensor=weight
import torch

layer = torch.nn.Linear(2, 2)
x = torch.ones(3, 2, requires_grad=True)
loss = layer(x).pow(2).sum()  # saves
state = layer.state_dict()
state["weight"].mul_(0.5)  # harm
loss.backward()

# %% vector_to_parameters · .data is swapped, but what the layer saved is a view that keeps the old storage
# correct
import torch

layer = torch.nn.Linear(2, 1)
x = torch.ones(3, 2, requires_grad=True)
loss = layer(x).pow(2).sum()
vector = torch.nn.utils.parameters_to_vector(layer.parameters())
torch.nn.utils.vector_to_parameters(vector.detach() * 0, layer.parameters())
loss.backward()


# truth
def truth():
    layer = torch.nn.Linear(2, 1)
    x = torch.ones(3, 2, requires_grad=True)
    out = x @ layer.weight.t() + layer.bias
    out.pow(2).sum().backward()
    return {"layer.weight": layer.weight.grad, "layer.bias": layer.bias.grad, "x": x.grad}


# %% t_write · t_ counts as a write, though no byte changes
# raises-backward, tensor=x
import torch

x = torch.ones(2, 3)
w = torch.ones(2, 3, requires_grad=True)
loss = (x * w).sum()  # saves
x.t_()  # harm
loss.backward()

# %% data_then_detached · what was written behind autograd's back is detached before its use; a later write does the harm
# silently-wrong, tensor=h, oracle=clone
import torch

a = torch.tensor([0.3, 0.7], requires_grad=True)
b = a * 2
b.data *= 0.5
b.detach_()
h = (b + a).exp()  # saves
h.data.mul_(2)  # harm
h.sum().backward()
