# %% add_zero · add_(0) changes nothing and is refused
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.exp()  # saves
b.add_(0)  # harm
b.sum().backward()

# %% disjoint_rows · one row is read, another written
# raises-backward
import torch

a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
b = a * 1
b[0] = b[1].sin()  # harm saves
b.sum().backward()

# %% disjoint_loop · a recurrence in a buffer: each row from the one before
# raises-backward, tensor=rows
import torch

start = torch.tensor([0.1, 0.2], requires_grad=True)
rows = torch.zeros(4, 2)
rows[0] = start
for t in range(1, 4):
    rows[t] = rows[t - 1].sin()  # harm saves
rows.sum().backward()

# %% disjoint_loop_linear · a linear recurrence saves nothing
# correct
import torch

start = torch.tensor([0.1, 0.2], requires_grad=True)
rows = torch.zeros(4, 2)
rows[0] = start
for t in range(1, 4):
    rows[t] = rows[t - 1] * 0.5 + 1
rows.sum().backward()

# %% copy_self · copy_ with its own values
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.tanh()  # saves
b.copy_(b.detach().clone())  # harm
b.sum().backward()

# %% clamp_without_effect · clamp_ that clamps nothing
# raises-backward, tensor=p
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
p = a.sigmoid()  # saves
p.clamp_(0, 1)  # harm
p.sum().backward()

# %% masked_nothing · a mask that selects nothing
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.exp()  # saves
b[b < 0] = 0  # harm
b.sum().backward()
