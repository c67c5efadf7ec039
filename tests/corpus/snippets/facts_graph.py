# %% not_scalar · backward from a vector without a gradient
# raises-backward
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
(w * w).backward()

# %% shape_error · a forward that does not fit
# raises-forward
import torch

w = torch.ones(2, 3, requires_grad=True)
y = w @ torch.ones(2, 3)
y.sum().backward()

# %% integer_grad · integers cannot require grad
# raises-forward
import torch

n = torch.tensor([1, 2], requires_grad=True)
(n * 2).sum().backward()

# %% numpy_of_grad · numpy() of a tensor that requires grad
# raises-forward
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
values = (w * 2).numpy()
(w * w).sum().backward()

# %% checkpoint_input_written · the input of a checkpointed block is written before it recomputes
# raises-backward, tensor=x, watch=blind
import torch
from torch.utils.checkpoint import checkpoint

w = torch.tensor([1.0, 2.0], requires_grad=True)
x = torch.tensor([3.0, 4.0])
h = checkpoint(lambda v: (v * w).sin(), x, use_reentrant=False)
x.zero_()  # harm
h.sum().backward()


# truth
def truth():
    return {"w": [3 * torch.cos(torch.tensor(3.0)), 4 * torch.cos(torch.tensor(8.0))]}


# %% requires_grad_late · requires_grad switched on after the use
# raises-backward
import torch

w = torch.tensor([1.0, 2.0])
loss = (w * w).sum()
w.requires_grad_()
loss.backward()

# %% inplace_dropout_relu · Dropout(inplace=True) after relu
# raises-backward, tensor=h
import torch

torch.manual_seed(0)
w = torch.ones(8, requires_grad=True)
h = torch.relu(w)  # saves
torch.nn.functional.dropout(h, 0.5, inplace=True)  # harm
h.sum().backward()

# %% scatter_late · the one-hot buffer is reused for the next batch
# raises-backward, tensor=onehot
import torch

logits = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
onehot = torch.zeros(2, 2)
loss = 0
for labels in (torch.tensor([[0], [1]]), torch.tensor([[1], [1]])):
    onehot.zero_().scatter_(1, labels, 1.0)  # harm
    loss = loss - (onehot * logits.log_softmax(1)).sum()  # saves
loss.backward()

# %% sparse_embedding · a sparse gradient
# correct, oracle=clone
import torch

table = torch.nn.Embedding(4, 2, sparse=True)
table(torch.tensor([1, 3, 1])).pow(2).sum().backward()

# %% complex_parts · the imaginary part is written through a real view of .data
# silently-wrong, tensor=z
import torch

w = torch.tensor([0.3, 1.1, -0.4], dtype=torch.float64, requires_grad=True)
z = torch.complex(w.cos(), w.sin() * 2)
power = (z * z.conj()).real  # saves
loss = power.sum()
parts = torch.view_as_real(z.data)
parts[..., 1] = 0  # harm
loss.backward()


# truth
def truth():
    import math

    return {"w": [6 * math.sin(w) * math.cos(w) for w in (0.3, 1.1, -0.4)]}


# %% generator · tensors out of a generator, none is written
# correct
import torch


def powers(base):
    value = base
    for _ in range(3):
        value = value * base
        yield value


w = torch.tensor([0.5, 0.7], requires_grad=True)
sum(power.sum() for power in powers(w)).backward()
