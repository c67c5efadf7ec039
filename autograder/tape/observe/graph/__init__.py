"""The graph as it grows: nodes, the tensors they save, and the tensors a program holds."""
