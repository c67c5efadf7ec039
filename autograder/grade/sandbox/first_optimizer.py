"""Imports the modules that PyTorch imports with a process's first optimizer: its compiler, most of a second (2.13)."""

import torch

torch.optim.SGD([torch.zeros(1)], lr=0.0)
