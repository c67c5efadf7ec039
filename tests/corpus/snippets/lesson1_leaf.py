# %% L1 · a leaf that requires grad is written in place
# raises-forward
import torch

w = torch.empty(3, requires_grad=True)
w.normal_()
(w * 2).sum().backward()

# %% L2_no_grad · initialised under no_grad, before any use
# correct, oracle=clone
import torch

w = torch.empty(3, requires_grad=True)
with torch.no_grad():
    w.normal_()
(w * w).sum().backward()

# %% L4 · the same through .data, where nothing saved x
# correct
import torch

x = torch.tensor([1.0], requires_grad=True)
y = 2 * x
x.data *= 100
y.backward()


# truth
def truth():
    return {"x": [2.0]}


# %% L5 · the same through .data, where x·x saved x
# silently-wrong, tensor=x
import torch

x = torch.tensor([1.0], requires_grad=True)
y = x * x  # saves
x.data *= 100  # harm
y.backward()


# truth
def truth():
    return {"x": [2.0]}


# %% L6 · no_grad lifts the leaf rule, not the saved-tensor rule
# raises-backward, tensor=w
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
y = (w * w).sum()  # saves
with torch.no_grad():
    w.mul_(100)  # harm
y.backward()

# %% L7 · the same write where nothing was saved
# correct
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
y = (2 * w).sum()
with torch.no_grad():
    w.mul_(100)
y.backward()


# truth
def truth():
    return {"w": [2.0, 2.0]}


# %% L8 · assigning .data swaps the storage under the graph
# silently-wrong, tensor=w
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
y = (w * w).sum()  # saves
w.data = torch.tensor([10.0, 20.0])  # harm
y.backward()


# truth
def truth():
    return {"w": [2.0, 4.0]}


# %% L9 · a view of a leaf is written
# raises-forward
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
x[0] = 2
(x * x).sum().backward()

# %% L10_step_first · the step is taken before backward
# raises-backward, tensor=w
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
w.grad = torch.ones(2)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * w).sum()  # saves
optimizer.step()  # harm
loss.backward()

# %% L3 · a leaf is multiplied in place after use
# raises-forward
import torch

x = torch.tensor([1.0], requires_grad=True)
y = 2 * x
x *= 100
y.backward()
