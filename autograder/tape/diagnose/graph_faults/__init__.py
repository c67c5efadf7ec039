"""Faults of the graph that are not in-place modifications: cut values, lost leaves, gradients used twice."""
