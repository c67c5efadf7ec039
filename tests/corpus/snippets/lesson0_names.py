# %% N1_rebinding · a new object under an old name
# correct
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * a
kept = b
b = b + 1
c = (b * kept).sum()
b = torch.zeros(2)
c.backward()

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

# %% N4_counters · the same two writes where d is saved
# raises-backward, tensor=d
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
d = a * 2
f = d.pow(2).sum()  # saves
d.data.add_(0.5)  # harm
d.detach().add_(0.5)  # harm
f.backward()
