"""A prediction that two tests of the browser show: in the check's picture, and as a program to play with."""

LATE_WRITE = """
@predicted("late_write")
def program():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w.exp()
    h.mul_(2)
    h.sum().backward()
    return {"w": w.grad}
"""
