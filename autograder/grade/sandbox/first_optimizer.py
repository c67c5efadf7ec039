"""Importing this makes PyTorch load what it loads with a process's first optimizer: its compiler, most of a second (2.13)."""

import torch

torch.optim.SGD([torch.zeros(1)], lr=0.0)
