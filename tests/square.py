"""A custom Function for tests."""

import torch


class Square(torch.autograd.Function):
    """x * x."""

    @staticmethod
    def forward(ctx, x):  # noqa: D102
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):  # noqa: D102
        return 2 * ctx.saved_tensors[0] * gradient
