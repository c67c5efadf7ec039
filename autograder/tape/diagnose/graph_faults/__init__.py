"""Faults of the graph that no write explains: values cut out of it, leaves lost, gradients used twice."""
