"""`torch.compile`: whether compiled code runs, what belongs to compiling it, and how to run it as if it were not compiled."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import ContextDecorator, ExitStack, contextmanager

import torch

from autograder.tape.internals.entry_points import replaced
from autograder.tape.internals.mode_stack import dispatch_modes, told_of_compiled_calls

_FILES = ("/torch/_dynamo/", "/torch/_inductor/")
_COMPILER = "torch._dynamo.eval_frame"  # loaded by the first `torch.compile`
_TRACERS = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FUNCTIONAL)


@contextmanager
def compiled_calls() -> Iterator[list[bool]]:
    """Compiled functions run as they are inside; the list that it yields is filled when one does.

    What was compiled before is forgotten, and so compiled again: after some runs of one program the compiler would give up
    ("recompile_limit", PyTorch 2.6 to 2.15) and leave it as it is.
    """
    ran: list[bool] = []
    if _COMPILER in sys.modules:
        torch.compiler.reset()
    try:
        with told_of_compiled_calls(lambda: ran.append(True), lambda: None):
            yield ran
    finally:
        if _COMPILER in sys.modules:
            torch.compiler.set_stance("default")


@contextmanager
def eager_calls() -> Iterator[None]:
    """Compiled functions run eagerly inside; for a program whose compiled functions have run before, so that the compiler is loaded."""
    with ExitStack() as stack:
        if _COMPILER in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(replaced(torch.compiler, "set_stance", _KeptStance))
        yield


class _KeptStance(ContextDecorator):
    """Used instead of `torch.compiler.set_stance`: the program's own stance would compile again."""

    def __init__(self, *_args: object, **_options: object) -> None:
        """Takes what `set_stance` takes."""

    def __enter__(self) -> None:
        """Changes nothing."""

    def __exit__(self, *_: object) -> None:
        """Changes nothing."""


@contextmanager
def eager_random_numbers() -> Iterator[None]:
    """Compiled functions draw the random numbers inside that they would draw eagerly; inductor has a generator of its own."""
    with ExitStack() as stack:
        if "torch._inductor.config" in sys.modules:
            stack.enter_context(sys.modules["torch._inductor.config"].patch(fallback_random=True))
        yield


def has_scripted_functions() -> bool:
    """Return whether there are functions of `torch.jit`, which write without a call that a function mode receives (2.13)."""
    return bool(torch.jit._state._python_cu.get_functions())  # type: ignore[func-returns-value,attr-defined]


def is_tracing() -> bool:
    """Returns whether operations are recorded for a graph that runs later; a backward meanwhile is the compiler's, not the program's."""
    return dispatch_modes() and any(torch._C._get_dispatch_mode(key) is not None for key in _TRACERS)


def is_compiling(error: BaseException) -> bool:
    """Returns whether an exception, or one that it came upon, was raised while the compiler ran."""
    return any(
        is_compiler_file(frame.f_code.co_filename)
        for one in _chain(error)
        for frame, _ in traceback.walk_tb(one.__traceback__)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


def is_compiler_file(file: str) -> bool:
    """Returns whether a frame of a traceback is the compiler's."""
    return any(part in file.replace("\\", "/") for part in _FILES)
