"""LBFGS with a closure: the loss is built outside of it, or inside."""

# bug: raises-backward
# fixed: correct
# clamped: correct
import torch


class Rosenbrock:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __call__(self, point):
        x, y = point
        return (self.a - x) ** 2 + self.b * (y - x**2) ** 2


def make():
    point = torch.tensor([-0.5, 0.4], requires_grad=True)
    return Rosenbrock(1.0, 5.0), point


def minimise(function, point, iterations):
    optimizer = torch.optim.LBFGS([point], lr=0.1, max_iter=iterations, max_eval=iterations)
    loss = function(point)  # [bug]

    def closure():
        optimizer.zero_grad()
        value = loss  # [bug]
        point.data.clamp_(-2, 2)  # [clamped]
        value = function(point)  # [fixed clamped]
        value.backward()
        return value

    optimizer.step(closure)
    return point


def run():
    function, point = make()
    minimise(function, point, iterations=3)
    final = function(point)
    (gradient,) = torch.autograd.grad(final, point)
    return {"point": gradient}


# truth
def truth():
    function, point = make()
    x = minimise(lambda p: function(p), point, 3).detach()
    dx = -2 * (1 - x[0]) - 20 * x[0] * (x[1] - x[0] ** 2)
    return {"point": torch.stack([dx, 10 * (x[1] - x[0] ** 2)])}
