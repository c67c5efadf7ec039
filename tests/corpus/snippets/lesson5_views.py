# %% S1 · select is a view, and u is written
# raises-backward, tensor=i
import torch

p = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
D = torch.eye(3).mul_(2).requires_grad_()
u = p.clone()
i = u[0]
a = D @ i  # saves
u[0] = a  # harm
a.sum().backward()

# %% S7 · read by select, written by select
# raises-backward
import torch

a = torch.tensor([[2.0]], requires_grad=True)
d = torch.tensor(3.0, requires_grad=True)
b = a.clone()
loss = 0
for _ in range(2):
    e = b[0] * d  # saves
    b[0] = e  # harm
    loss = loss + e.sum()
loss.backward()

# %% S10 · one output of unbind is written
# raises-forward
import torch

p = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
first, second = (p * 2).unbind(0)
first.add_(1)
second.sum().backward()

# %% V_expand_write · an expanded tensor is written: one memory for several elements
# raises-forward
import torch

p = torch.tensor([1.0, 2.0], requires_grad=True)
rows = (p * 1).expand(3, 2)
rows.add_(torch.ones(3, 2))
rows.sum().backward()

# %% V_diagonal_late · the diagonal is written after a matmul saved it
# raises-backward, tensor=u
import torch

p = torch.arange(1.0, 5.0).view(2, 2).requires_grad_()
u = p * 2
y = u @ u  # saves
u.fill_diagonal_(1)  # harm
y.sum().backward()

# %% S8 · b was overwritten, and its history reaches both the old clone and the written value
# correct
import torch

a = torch.tensor([[2.0], [5.0]], requires_grad=True)
d = torch.tensor(3.0, requires_grad=True)
b = a.clone()
before = b.grad_fn
e = b[[0], :] * d
b[0] = e
assert type(b.grad_fn).__name__ == "CopySlices" and b.grad_fn.next_functions[0][0] is before
b.sum().backward()


# truth
def truth():
    return {"a": [[3.0], [1.0]], "d": 2.0}
