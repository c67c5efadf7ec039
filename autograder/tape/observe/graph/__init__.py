"""The graph of a run: nodes, their saved tensors, and the tensors of the program."""
