# %% write_marked_saved · mark_dirty moves the counter of a saved tensor
# raises-backward, tensor=h
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)  # harm

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


a = torch.tensor([1.0, 2.0], requires_grad=True)
h = a * 2
square = (h * h).sum()  # saves
loss = square + Scale.apply(h).sum()  # harm
loss.backward()

# %% grad_written · backward writes the gradient it was given, which another branch shares
# bug: silently-wrong, watch=blind
# fixed: correct
import torch


class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 0.5

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(0.5)  # [bug] harm
        return grad * 0.5  # [fixed]


a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([1.0, 2.0], requires_grad=True)
weights = torch.tensor([1.0, 3.0])
(b * 2 + Halve.apply(a)).backward(weights)


# truth
def truth():
    return {"a": [0.5, 1.5], "b": [2.0, 6.0]}


# %% straight_through · a straight-through estimator is a choice
# correct, oracle=clone
import torch


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


a = torch.tensor([1.2, 2.7], requires_grad=True)
(Round.apply(a) * 3).sum().backward()


# truth
def truth():
    return {"a": [3.0, 3.0]}


# %% reversal · gradient reversal is a choice
# correct, oracle=clone
import torch


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


a = torch.tensor([1.2, 2.7], requires_grad=True)
(Reverse.apply(a) * 3).sum().backward()


# truth
def truth():
    return {"a": [-3.0, -3.0]}


# %% backward_raises · a Function whose backward returns the wrong shape
# raises-backward
import torch


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return torch.ones(5)


a = torch.tensor([1.2, 2.7], requires_grad=True)
Sum.apply(a).backward()
