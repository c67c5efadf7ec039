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
