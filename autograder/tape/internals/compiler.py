"""Detect compiled functions (`torch.compile`) and run them uncompiled."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import ContextDecorator, ExitStack, contextmanager

import torch

from autograder.tape.internals.entry_points import replaced
from autograder.tape.internals.mode_stack import dispatch_modes, told_of_compiled_calls

_FILES = ("/torch/_dynamo/", "/torch/_inductor/")
_COMPILER = "torch._dynamo.eval_frame"  # imported by the first call of `torch.compile`
_TRACERS = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FUNCTIONAL)


@contextmanager
def compiled_calls() -> Iterator[list[bool]]:
    """Run compiled functions as usual in the block, and yield a list that is filled when one runs.

    Earlier compilations are discarded. After several runs of the same program, the compiler would otherwise stop
    compiling it ("recompile_limit", PyTorch 2.6 to 2.15).
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
    """Run compiled functions eagerly in the block.

    The program's compiled functions must have run before, so that the compiler is imported.
    """
    with ExitStack() as stack:
        if _COMPILER in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(replaced(torch.compiler, "set_stance", _KeptStance))
        yield


class _KeptStance(ContextDecorator):
    """Replacement for `torch.compiler.set_stance` without any effect. The program's stance would compile again."""

    def __init__(self, *_args: object, **_options: object) -> None:
        """Accept the arguments of `set_stance`."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


@contextmanager
def eager_random_numbers() -> Iterator[None]:
    """Make compiled functions draw the same random numbers as in eager mode. Inductor has its own generator."""
    with ExitStack() as stack:
        if "torch._inductor.config" in sys.modules:
            stack.enter_context(sys.modules["torch._inductor.config"].patch(fallback_random=True))
        yield


def has_scripted_functions() -> bool:
    """Return whether there are `torch.jit` functions, whose in-place modifications a function mode does not receive (2.13)."""
    return bool(torch.jit._state._python_cu.get_functions())  # type: ignore[func-returns-value,attr-defined]


def is_tracing() -> bool:
    """Return whether operations are being traced for a graph that runs later.

    A backward call during tracing is the compiler's.
    """
    return dispatch_modes() and any(torch._C._get_dispatch_mode(key) is not None for key in _TRACERS)


def is_compiling(error: BaseException) -> bool:
    """Return whether an exception, or one in its chain of contexts, was raised while the compiler ran."""
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
    """Return whether a frame's file belongs to the compiler."""
    return any(part in file.replace("\\", "/") for part in _FILES)
