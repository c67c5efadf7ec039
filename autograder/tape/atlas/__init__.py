"""The atlas: a table of the tensors that each PyTorch operation saves for backward, measured once per release.

The tables are data files in `tables/`, written by `python -m tests.atlas`. This subpackage does not import torch.
"""
