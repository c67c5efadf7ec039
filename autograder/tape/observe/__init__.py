"""Observe a run statement by statement: tensors, graph, saved tensors, memory and in-place modifications."""
