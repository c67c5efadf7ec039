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

# %% E2 · the matmul saves a clone
# correct, oracle=clone
import torch

n, d, m = 3, 5, 7
embedding = torch.nn.Embedding(n, d, max_norm=1)
W = torch.randn((m, d), requires_grad=True)
idx = torch.tensor([1, 2])
a = embedding.weight.clone() @ W.t()
b = embedding(idx) @ W.t()
loss = (a.unsqueeze(0) + b.unsqueeze(1)).sigmoid().prod()
loss.backward()

# %% E3 · the lookup first
# correct, oracle=clone
import torch

n, d, m = 3, 5, 7
embedding = torch.nn.Embedding(n, d, max_norm=1)
W = torch.randn((m, d), requires_grad=True)
idx = torch.tensor([1, 2])
b = embedding(idx) @ W.t()
a = embedding.weight @ W.t()
loss = (a.unsqueeze(0) + b.unsqueeze(1)).sigmoid().prod()
loss.backward()

# %% E5 · nothing is rescaled, and the counter moves all the same
# raises-backward, tensor=weight
import torch

embedding = torch.nn.Embedding(3, 5, max_norm=1000)
W = torch.randn((7, 5), requires_grad=True)
a = embedding.weight @ W.t()  # saves
b = embedding(torch.tensor([1, 2])) @ W.t()  # harm
(a.sum() + b.sum()).backward()

# %% E6 · the weight is used in the lookup only
# correct, oracle=clone
import torch

embedding = torch.nn.Embedding(3, 5, max_norm=1)
W = torch.randn((7, 5), requires_grad=True)
b = embedding(torch.tensor([1, 2, 1])) @ W.t()
b.sigmoid().sum().backward()

# %% E4 · max_norm=True means 1.0
# raises-backward, tensor=weight
import torch

embedding = torch.nn.Embedding(3, 5, max_norm=True)
W = torch.randn((7, 5), requires_grad=True)
a = embedding.weight @ W.t()  # saves
b = embedding(torch.tensor([0, 2])) @ W.t()  # harm
(a.sum() + b.sum()).backward()
