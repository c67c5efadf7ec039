# %% numpy_write · a NumPy view is written after the save
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
view = b.detach().numpy()
loss = (b * b).sum()  # saves
view[:] = 0  # harm
loss.backward()

# %% storage_write · the storage itself is written
# silently-wrong, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
loss = (b * b).sum()  # saves
b.untyped_storage().fill_(0)  # harm
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

# %% out_write · out= writes into the saved tensor
# raises-backward, tensor=b
import torch

x = torch.ones(2)
b = torch.tensor([2.0, 3.0])
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (b * w).sum()  # saves
torch.add(x, x, out=b)  # harm
loss.backward()

# %% inference_tensor · an inference tensor cannot be saved
# raises-forward
import torch

with torch.inference_mode():
    x = torch.ones(2) * 2
w = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (x * w).sum()
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
