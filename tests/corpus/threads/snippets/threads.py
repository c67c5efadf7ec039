# %% write_in_thread · a thread writes into what the main thread saved
# bug: raises-backward, tensor=h
# fixed: correct
import threading

import torch


def smooth():
    global h
    h.mul_(0.5)  # [bug] harm
    h = h * 0.5  # [fixed]


w = torch.tensor([1.0, 2.0], requires_grad=True)
h = torch.exp(w)  # saves
loss = h.sum()
worker = threading.Thread(target=smooth)
worker.start()
worker.join()
loss.backward()

# %% pool_raises · backward in a pool raises where the result is asked for
# bug: raises-backward, tensor=hidden
# fixed: correct
from concurrent.futures import ThreadPoolExecutor

import torch

w = torch.tensor([0.5, 1.0], requires_grad=True)


def step():
    hidden = torch.sigmoid(w * 2)  # saves
    hidden += 1  # [bug] harm
    hidden = hidden + 1  # [fixed]
    hidden.sum().backward()


with ThreadPoolExecutor(max_workers=1) as pool:
    pool.submit(step).result()

# %% data_loader_workers · a DataLoader with a worker process
# correct
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
w = torch.ones(3, requires_grad=True)
loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, num_workers=1)
for (batch,) in loader:
    (batch * w).pow(2).sum().backward()

# %% low_level_step · forward, write and backward in such a thread
# bug: silently-wrong, tensor=h
# fixed: correct
import _thread
import threading

import torch

done = threading.Event()
w = torch.tensor([1.0, 2.0], requires_grad=True)


def step():
    h = torch.exp(w)  # saves
    loss = h.sum()
    h.data.mul_(0.5)  # [bug] harm
    h = h * 0.5  # [fixed]
    loss.backward()
    done.set()


_thread.start_new_thread(step, ())
done.wait()


# truth
def truth():
    return {"w": torch.exp(torch.tensor([1.0, 2.0]))}


# %% subclass · a Thread with a run of its own, and a write by a library
# bug: raises-backward, tensor=weight
# fixed: correct
import threading

import torch
from torch import nn


class Pruner(threading.Thread):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def run(self):
        nn.init.zeros_(self.weight)  # [bug] harm
        nn.init.zeros_(torch.empty_like(self.weight))  # [fixed]


weight = torch.ones(2, 2)
w = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (weight @ w).sum()  # saves
pruner = Pruner(weight)
pruner.start()
pruner.join()
loss.backward()
