"""Compute the correct gradients of a program: copies of saved tensors, finite differences, replay."""
