"""Replace PyTorch's entry points for a block: backward, custom Functions, saved-tensor hooks, checkpoint, methods of optimizers.

Nine tenths of the PyTorch calls of a small training step are in the optimizer, and only its in-place modification of
the parameters matters.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from inspect import getattr_static
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import checkpoint

Hooks = torch.autograd.graph.saved_tensors_hooks
Hook = Callable[..., Any]
OnOptimizer = Callable[[torch.optim.Optimizer], None]

# Do not use `torch.autograd.graph.node_creation_hook` (2.14 and later): it adds no information. Measured with 2.15.0 on
# every twelfth program of the corpus: it reported 1,693 nodes, the observer knew 1,618 of them, and the other 75 (of
# views, recreated after a modification) belonged to tensors that the observer never met. It costs 0.6 µs per node,
# compared with 3.4 µs for the operation. PyTorch calls it while it locks a view: code that reads `is_leaf` of that
# view, such as a line tracer, deadlocks.


replaced = patch.object
"""A context that sets an attribute: `replaced(owner, name, value)`."""


def wrapping(owner: Any, name: str, replacement: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Make each call of a function or method call `replacement(original, *args)` in the block."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the test's own frames
        return replacement(original, *args, **options)

    return replaced(owner, name, wrapped)


def noting(owner: Any, name: str, note: Callable[..., object]) -> AbstractContextManager[Any]:
    """Call `note` with the arguments of each call of a function, before the call."""

    def noted(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        note(*args, **options)
        return original(*args, **options)

    return wrapping(owner, name, noted)


@contextmanager
def replaced_engine(replacement: Callable[..., Any]) -> Iterator[None]:
    """Make each backward call `replacement(original, *args)` with the arguments of the engine.

    torch.compiler replaces `torch.autograd._engine_run_backward` for the same purpose (2.13). `backward`, `grad` and
    `torch.autograd.graph` look it up in two modules.
    """
    autograd, name = torch.autograd, "_engine_run_backward"
    run = functools.partial(replacement, getattr(autograd, name))
    with replaced(autograd, name, run), replaced(autograd.graph, name, run):
        yield


_BACKWARD_FILES = ("torch/_tensor.py", "torch/autograd/__init__.py")


def is_backward_call(file: str, function: str) -> bool:
    """Return whether a frame of a traceback belongs to PyTorch's `backward` or `grad`."""
    return function in ("backward", "grad") and file.replace("\\", "/").endswith(_BACKWARD_FILES)


def is_in_checkpoint(frame: FrameType) -> bool:
    """Return whether `torch.utils.checkpoint` called this function, directly or indirectly."""
    return any(caller.f_code.co_filename == checkpoint.__file__ for caller, _ in traceback.walk_stack(frame))


def close_checkpoints(error: BaseException | None) -> None:
    """Remove the hooks that `torch.utils.checkpoint` leaves on PyTorch's stack if the checkpointed function raises.

    PyTorch 2.6 and some later releases remove them only when the frame of checkpoint is freed. The traceback of the error
    keeps that frame alive, so later operations would be recomputed with the failed program. Newer releases remove the
    hooks immediately (2.13).
    """
    for frame in frames_of(error):
        if frame.f_code.co_filename == checkpoint.__file__:
            with suppress(RuntimeError):  # the frame is still running
                frame.clear()


def frames_of(error: BaseException | None) -> Iterator[FrameType]:
    """Yield the frames of an exception, and of those in its chain of contexts."""
    while error is not None:
        yield from (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        error = error.__context__


def replaced_apply(replacement: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Make `F.apply(*args)` of each custom Function F call `replacement(original, F, *args)` in the block.

    `Function.apply` is a class method written in Python up to 2.14 and a built-in one in 2.15; both bind with
    `__get__`.
    """
    raw = getattr_static(torch.autograd.Function, "apply")

    def original(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return raw.__get__(None, cls)(*args, **kwargs)

    def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return replacement(original, cls, *args, **kwargs)

    return replaced(torch.autograd.Function, "apply", classmethod(applied))


def replaced_hooks(replacement: Callable[[Hook, Hook], tuple[Hook, Hook]]) -> AbstractContextManager[Any]:
    """Make `saved_tensors_hooks(pack, unpack)` and its subclasses set the pair that `replacement(pack, unpack)` returns.

    `__enter__` pushes the pair on PyTorch's stack, `__exit__` pops the topmost pair (2.6 to 2.15).
    """
    enter = Hooks.__enter__

    def entered(hooks: Any) -> Any:
        return enter(Hooks(*replacement(hooks.pack_hook, hooks.unpack_hook)))

    return replaced(Hooks, "__enter__", entered)


@contextmanager
def own_hooks(pack: Callable[..., Any], unpack: Callable[..., Any]) -> Iterator[None]:
    """Set default saved-tensor hooks that `replaced_hooks` leaves as they are."""
    torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)
    try:
        yield
    finally:
        torch._C._autograd._pop_saved_tensors_default_hooks()


@contextmanager
def without_hooks(pack: Hook, unpack: Hook) -> Iterator[None]:
    """Remove the topmost default hooks, `pack` and `unpack`, inside the block, unless disabled hooks have removed them already.

    2.6 cannot return the topmost hooks.
    """
    if torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is not None:
        yield
        return
    torch._C._autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


def around_transforms(around: Callable[[], AbstractContextManager[Any]]) -> AbstractContextManager[Any]:
    """Run functions that `torch.func` transforms (`grad`, `vjp`, `jacrev`, `vmap`) in a context that `around()` creates.

    These transforms disable saved-tensor hooks with `disable_saved_tensors_hooks`, which raises an error if hooks are
    set (2.6 to 2.15).
    """
    forbid = torch.autograd.graph.disable_saved_tensors_hooks

    @contextmanager
    def forbidden(message: Any) -> Any:
        with around(), forbid(message):
            yield

    return replaced(torch.autograd.graph, "disable_saved_tensors_hooks", forbidden)


# These functions expose memory that can then be modified without a function call or a version counter.
EXPOSING = {
    "numpy", "__array__", "__dlpack__", "untyped_storage", "storage", "_typed_storage", "data_ptr", "share_memory_",
}  # fmt: skip
# Metadata of a tensor. Programs read it so often that a recording must ignore it.
METADATA = {
    "size", "dim", "numel", "stride", "is_floating_point", "is_contiguous", "element_size", "_set_grad_enabled", "__len__",
}  # fmt: skip
# Attributes that return tensors, or whose assignment gives a tensor other memory or another gradient.
TENSORS = {"data", "grad", "T", "H", "mT", "mH", "real", "imag", "_grad"}


def function_name(func: Callable[..., Any]) -> str:
    """Return a short name of the called function: "add_", "data" to read an attribute, "data =" to assign it, "" for metadata."""
    name = getattr(func, "__name__", None) or str(func)
    if name not in ("__get__", "__set__"):
        return name
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    # PyTorch sets `_backward_hooks` while it recreates the node of a view, with a lock that `is_leaf` waits for (2.13).
    if attribute not in TENSORS:
        return ""
    return attribute if name == "__get__" else f"{attribute} ="


# Assignments of a gradient: the first by the program, the second by PyTorch.
GRADIENT_GIVEN = ("grad =", "_grad =")
# Functions that zero tensors in place; an optimizer's `zero_grad(set_to_none=False)` zeros a list of tensors.
ZEROING = ("zero_", "_foreach_zero_")


def around_subclasses(note: Callable[[torch.Tensor, torch.Tensor], object]) -> AbstractContextManager[Any]:
    """Call `note(value, leaf)` after each `nn.Parameter(value)`, which no function mode receives (PyTorch 2.13)."""
    make = torch.Tensor._make_subclass

    def making(kind: Any, value: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        leaf = make(kind, value, *args, **options)
        note(value, leaf)
        return leaf

    return replaced(torch.Tensor, "_make_subclass", staticmethod(making))


@contextmanager
def around_optimizer_steps(begins: OnOptimizer, ends: OnOptimizer, *, with_closures: bool = True) -> Iterator[None]:
    """Call `begins(optimizer)` before each `optimizer.step()` in the block and, unless it raises, `ends(optimizer)` after it.

    Without `with_closures`, steps that receive a closure are skipped, because it runs a forward and a backward (LBFGS).
    """

    def hook(call: OnOptimizer) -> Callable[[Any, Any, Any], None]:
        def run(optimizer: Any, args: Any, kwargs: Any) -> None:
            if with_closures or not any(callable(argument) for argument in (*args[1:], *kwargs.values())):
                call(optimizer)

        return run

    handles = register_optimizer_step_pre_hook(hook(begins)), register_optimizer_step_post_hook(hook(ends))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def without_new_operators(is_own_file: Callable[[str], bool]) -> Iterator[None]:
    """Remove the operators that files of the user register in the block, because a name can be registered only once.

    A package keeps its operators: the next run finds it imported. `Library._destroy` exists in 2.6 to 2.14.
    """
    made: list[torch.library.Library] = []
    create, package = torch.library.Library.__init__, os.path.dirname(torch.__file__)
    # `define` and `custom_op` make a library for each name, `define` through `functools.singledispatch`.
    makers = torch.library.__file__, os.path.join(package, "_library"), functools.__file__

    def created(library: torch.library.Library, *args: Any, **options: Any) -> None:
        create(library, *args, **options)
        files = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe(1)))
        if is_own_file(next((file for file in files if not file.startswith(makers)), "")):
            made.append(library)

    try:
        with replaced(torch.library.Library, "__init__", created):
            yield
    finally:
        for library in made:
            library._destroy()
