"""Where a program's calls enter PyTorch, and may be met: backward, custom Functions, saved-tensor hooks, checkpoint."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from inspect import getattr_static
from types import FrameType

import torch
from torch.utils import checkpoint

Hooks = torch.autograd.graph.saved_tensors_hooks


# `torch.autograd.graph.node_creation_hook` (2.14 and later) is not used: it tells nothing that the observer does not know. Measured
# with 2.15.0 over every twelfth program of the corpus: of the 1,693 nodes it told of, the observer had 1,618, and the other 75
# (of views, made again after a write) belonged to no tensor it met. It cost 0.6 µs a node beside 3.4 µs for the operation, and it
# runs while PyTorch holds the lock of a view: whatever reads `is_leaf` of that view there, a line tracer included, waits for ever.


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """The attribute is another inside."""
    inherited = name not in vars(owner)
    original = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


@contextmanager
def replaced_engine(replacement: Callable[[Callable], Callable]) -> Iterator[None]:
    """Inside, each backward calls `replacement(original)` with the engine's own arguments.

    `torch.autograd._engine_run_backward` is what torch.compiler replaces for the same purpose (2.13); `backward`, `grad` and
    `torch.autograd.graph` look it up in two modules.
    """
    run = replacement(torch.autograd._engine_run_backward)
    with (
        replaced(torch.autograd, "_engine_run_backward", run),
        replaced(torch.autograd.graph, "_engine_run_backward", run),
    ):
        yield


_BACKWARD_FILES = ("torch/_tensor.py", "torch/autograd/__init__.py")


def is_backward_call(file: str, function: str) -> bool:
    """Returns whether a frame of a traceback is PyTorch's own `backward` or `grad`."""
    return function in ("backward", "grad") and file.replace("\\", "/").endswith(_BACKWARD_FILES)


def is_in_checkpoint(frame: FrameType | None) -> bool:
    """Returns whether a function was called by `torch.utils.checkpoint`, however far below."""
    while frame is not None and frame.f_code.co_filename != checkpoint.__file__:
        frame = frame.f_back
    return frame is not None


def close_checkpoints(error: BaseException | None) -> None:
    """Takes off the hooks that `torch.utils.checkpoint` leaves on PyTorch's stack where what it computes raises.

    Up to some release after 2.6 it takes them off when its own frame is gone, and the traceback of the error keeps the frame: until
    then whatever else runs would be computed again with the failed program. Newer releases take them off at once (2.13).
    """
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == checkpoint.__file__:
                with suppress(RuntimeError):  # it still runs
                    frame.clear()
        error = error.__context__


@contextmanager
def replaced_apply(replacement: Callable[[Callable], Callable]) -> Iterator[None]:
    """Inside, `F.apply(*args)` of each custom Function F is `replacement(original)(F, *args)`.

    `Function.apply` is a class method written in Python up to 2.14 and a built-in one in 2.15; both bind by `__get__`.
    """
    raw = getattr_static(torch.autograd.Function, "apply")

    def original(cls, *args, **kwargs):
        return raw.__get__(None, cls)(*args, **kwargs)

    with replaced(torch.autograd.Function, "apply", classmethod(replacement(original))):
        yield


@contextmanager
def replaced_hooks(replacement: Callable[[Callable, Callable], tuple[Callable, Callable]]) -> Iterator[None]:
    """Inside, `saved_tensors_hooks(pack, unpack)`, or what is built on it, sets the pair that `replacement(pack, unpack)` returns.

    Its `__enter__` puts the pair on PyTorch's stack, its `__exit__` takes the topmost off (2.6 to 2.15).
    """
    enter = Hooks.__enter__

    def entered(hooks):
        return enter(Hooks(*replacement(hooks.pack_hook, hooks.unpack_hook)))

    with replaced(Hooks, "__enter__", entered):
        yield


@contextmanager
def without_hooks() -> Iterator[None]:
    """Takes the topmost default hooks off for the time of the block."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks is None:
        yield
        return
    torch._C._autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


@contextmanager
def around_transforms(around: Callable[[], AbstractContextManager]) -> Iterator[None]:
    """Inside, what `torch.func` differentiates (`grad`, `vjp`, `jacrev`, `vmap`) runs in a context that `around()` makes.

    These forbid saved-tensor hooks, which they do by this function; it raises where some are set (2.6 to 2.15).
    """
    forbid = torch.autograd.graph.disable_saved_tensors_hooks

    @contextmanager
    def forbidden(message):
        with around(), forbid(message):
            yield

    with replaced(torch.autograd.graph, "disable_saved_tensors_hooks", forbidden):
        yield


@contextmanager
def replaced_set(replacement: Callable[[Callable], Callable]) -> Iterator[None]:
    """Inside, `tensor.set_(...)` is `replacement(original)`: the one function that writes and that no function mode receives (2.13)."""
    with replaced(torch.Tensor, "set_", replacement(torch.Tensor.set_)):
        yield
