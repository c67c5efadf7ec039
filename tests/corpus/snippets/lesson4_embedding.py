# %% E1 · the lookup rescales the rows that a matmul saved
# raises-backward, tensor=weight
import torch

n, d, m = 3, 5, 7
embedding = torch.nn.Embedding(n, d, max_norm=1)
W = torch.randn((m, d), requires_grad=True)
idx = torch.tensor([1, 2])
a = embedding.weight @ W.t()  # saves
b = embedding(idx) @ W.t()  # harm
loss = (a.unsqueeze(0) + b.unsqueeze(1)).sigmoid().prod()
loss.backward()

# %% E6 · the weight is used in the lookup only
# correct, oracle=clone
import torch

embedding = torch.nn.Embedding(3, 5, max_norm=1)
W = torch.randn((7, 5), requires_grad=True)
b = embedding(torch.tensor([1, 2, 1])) @ W.t()
b.sigmoid().sum().backward()
