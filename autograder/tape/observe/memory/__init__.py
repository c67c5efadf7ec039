"""Storages, their in-place modifications, and whether autograd recorded these."""
