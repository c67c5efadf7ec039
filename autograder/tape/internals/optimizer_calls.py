"""Hooks around the methods of optimizers.

Nine tenths of the PyTorch calls of a small training step are in the optimizer, and only its in-place modification of
the parameters matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from autograder.tape.internals.entry_points import replaced


@contextmanager
def told_of_steps(
    begins: Callable[[torch.optim.Optimizer], None], ends: Callable[[torch.optim.Optimizer], None]
) -> Iterator[None]:
    """Call `begins(optimizer)` before each `optimizer.step()` in the block and, unless it raises, `ends(optimizer)` after it.

    Steps that receive a closure are skipped, because a closure runs a forward and a backward (LBFGS).
    """

    def has_closure(args: tuple, kwargs: dict) -> bool:
        return any(callable(one) for one in (*args[1:], *kwargs.values()))

    def before(optimizer, args, kwargs):
        if not has_closure(args, kwargs):
            begins(optimizer)

    def after(optimizer, args, kwargs):
        if not has_closure(args, kwargs):
            ends(optimizer)

    handles = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def told_of_optimizers(
    begins: Callable[[torch.optim.Optimizer], None], ends: Callable[[torch.optim.Optimizer], None]
) -> Iterator[None]:
    """Call `begins(optimizer)` before and `ends(optimizer)` after each `optimizer.step()`, with or without a closure."""
    before = register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: begins(optimizer))
    after = register_optimizer_step_post_hook(lambda optimizer, _args, _kwargs: ends(optimizer))
    try:
        yield
    finally:
        before.remove()
        after.remove()


@contextmanager
def around_zero_grad(around: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Replace an optimizer's `zero_grad()` with `around(call)` in the block, unless it writes zeros to the gradients."""
    original = torch.optim.Optimizer.zero_grad

    @wraps(original)
    def zero_grad(optimizer, set_to_none=True):
        if set_to_none and not torch.compiler.is_compiling():
            around(lambda: original(optimizer, set_to_none))
        else:
            original(optimizer, set_to_none)

    with replaced(torch.optim.Optimizer, "zero_grad", zero_grad):
        yield
