# %% disjoint_rows · one row is read, another written
# raises-backward
import torch

a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
b = a * 1
b[0] = b[1].sin()  # harm saves
b.sum().backward()

# %% masked_nothing · a mask that selects nothing
# raises-backward, tensor=b
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.exp()  # saves
b[b < 0] = 0  # harm
b.sum().backward()
