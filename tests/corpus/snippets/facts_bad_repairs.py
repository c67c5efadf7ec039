# %% mutation_numpy · NumPy escapes it
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    b = a * 2
    y = (b * b).sum()
    b.detach().numpy()[:] = 0  # harm
    y.backward()


# truth
def truth():
    return {"a": [8.0, 16.0, 24.0]}


# %% identity_hooks · identity hooks switch the check off
# silently-wrong, tensor=b, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
    b = a * 2
    y = (b * b).sum()
b.mul_(10)  # harm
y.backward()


# truth
def truth():
    return {"a": [8.0, 16.0]}


# %% save_on_cpu · save_on_cpu keeps a copy, so the write is harmless
# correct, oracle=clone
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    b = a * 2
    y = (b * b).sum()
    y.backward()
    b.mul_(10)


# truth
def truth():
    return {"a": [8.0, 16.0]}


# %% raw_saved_hooks · hooks registered on one saved tensor switch its check off
# bug: silently-wrong, tensor=y, watch=blind
# fixed: correct, watch=blind
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 2
y = b.exp()
y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
y.mul_(3)  # [bug] harm
y = y.mul(3)  # [fixed]
y.sum().backward()


# truth
def truth():
    return {"a": 6 * torch.tensor([2.0, 4.0]).exp()}
