"""A soft reset writes the potential that a Function has stashed on ctx without save_for_backward."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch


class Square(torch.autograd.Function):
    # save_for_backward complained about something once so I keep it on ctx
    @staticmethod
    def forward(ctx, v):
        ctx.v = v  # [bug]
        ctx.v = v.clone()  # [fixed]
        return v * v

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.v * g


class Membrane:
    """spiking-like unit: potential, soft reset after readout"""

    def __init__(self, n):
        self.potential = torch.zeros(n)
        self.weight = torch.randn(n, n, requires_grad=True)

    def integrate(self, drive):
        self.potential = self.potential.detach() * 0.5 + drive @ self.weight
        return Square.apply(self.potential)

    def soft_reset(self, threshold):
        with torch.no_grad():
            over = self.potential > threshold
            self.potential[over] -= threshold  # [bug] harm
            self.potential[over] -= threshold  # [fixed]


def make():
    torch.manual_seed(5)
    return Membrane(4), torch.randn(3, 4)


def run():
    cell, drives = make()
    energy = 0.0
    for d in drives:
        energy = energy + cell.integrate(d).sum()
        cell.soft_reset(0.3)
    energy.backward()
    return {"weight": cell.weight.grad}


# truth
def truth():
    Square.apply = staticmethod(lambda v: v.clone().pow(2))
    return run()
