"""See what autograd holds, fix what breaks it: lessons, explanations and grades for PyTorch's in-place operations."""
