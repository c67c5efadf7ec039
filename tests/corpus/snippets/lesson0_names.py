# %% N2 · the graph holds the tensor, not the name
# correct
import torch

u = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
w = torch.tensor([[1.0, 0.5], [2.0, 1.0]], requires_grad=True)
i = u[[0], :]
a = i @ w
i = 3
a.sum().backward()

# %% N3 · writing into the tensor that the graph holds
# raises-backward, tensor=i
import torch

u = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
w = torch.tensor([[1.0, 0.5], [2.0, 1.0]], requires_grad=True)
i = u[[0], :]
a = i @ w  # saves
i[0] = 2  # harm
a.sum().backward()
