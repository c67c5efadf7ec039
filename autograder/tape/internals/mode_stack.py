"""Push and remove function modes at any position of the stack, and read the sequence numbers of nodes."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.entry_points import frames_of, replaced, wrapping

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
        with on_compiled_calls(lambda: ran.append(True), lambda: None):
            yield ran
    finally:
        if _COMPILER in sys.modules:
            torch.compiler.set_stance("default")


@contextmanager
def eager_calls() -> Iterator[None]:
    """Run compiled functions eagerly in the block. The program's must have run before, so that the compiler is imported."""
    with ExitStack() as stack:
        if _COMPILER in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(replaced(torch.compiler, "set_stance", _kept_stance))
        yield


@contextmanager
def _kept_stance(*_args: object, **_options: object) -> Iterator[None]:
    """Do nothing, in place of `torch.compiler.set_stance`. The program's stance would compile again."""
    yield


def eager_random_numbers() -> AbstractContextManager[Any]:
    """Make compiled functions draw the same random numbers as in eager mode. Inductor has its own generator."""
    config = sys.modules.get("torch._inductor.config")
    return config.patch(fallback_random=True) if config else nullcontext()


def has_scripted_functions() -> bool:
    """Return whether there are `torch.jit` functions, whose in-place modifications a function mode does not receive (2.13)."""
    return bool(torch.jit._state._python_cu.get_functions())  # type: ignore[func-returns-value,attr-defined]


def is_tracing() -> bool:
    """Return whether operations are being traced, or captured in a CUDA graph, for a graph that runs later.

    A backward call during tracing is the compiler's. During a capture, reading a value is an error that ends it (2.11).
    """
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return True
    in_mode = dispatch_modes() and any(torch._C._get_dispatch_mode(key) is not None for key in _TRACERS)
    return in_mode or torch.jit.is_tracing()


def is_compiling(error: BaseException) -> bool:
    """Return whether an exception, or one in its chain of contexts, was raised while the compiler ran."""
    return any(is_compiler_file(frame.f_code.co_filename) for frame in frames_of(error))


def is_compiler_file(file: str) -> bool:
    """Return whether a frame's file belongs to the compiler."""
    return any(part in file.replace("\\", "/") for part in _FILES)


# The sequence number of the next node of this thread. The engine orders nodes by this number (2.13 and 2.15).
next_sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
FIRST = 1 << 63  # nodes that accumulate a gradient have larger numbers, because they run first


def sequence_number(node: Any) -> int:
    """Return the number of earlier nodes of the node's thread; FIRST or more for a node that accumulates a gradient."""
    return node._sequence_nr()


def push_mode(mode: TorchFunctionMode, above: int | None = None) -> None:
    """Push a mode on this thread's stack: on top, or above the lowest `above` modes.

    `with mode:` pops the topmost mode at its end, which is the wrong one if blocks end out of order, such as in generators.
    """
    for other in [mode, *_popped(0 if above is None else len(_modes()) - above)]:
        torch.overrides._push_mode(other)


def is_active(mode: TorchFunctionMode) -> bool:
    """Return whether a mode is on this thread's stack."""
    return any(active is mode for active in _modes())


def remove_mode(mode: TorchFunctionMode) -> int | None:
    """Remove a mode from this thread's stack, and return the number of modes below it, or None if it is not on the stack."""
    stack = _modes()
    place = next((index for index, active in enumerate(stack) if active is mode), None)
    if place is not None:
        for other in _popped(len(stack) - place)[1:]:
            torch.overrides._push_mode(other)
    return place


def dispatch_modes() -> bool:
    """Return whether a dispatch mode is active: it would receive the operations of the observer, and might fail on them."""
    return torch._C._len_torch_dispatch_stack() > 0


def function_modes() -> bool:
    """Return whether a function mode is active: it can change every function of PyTorch. A default device is such a mode (2.13)."""
    return bool(_modes())


_modes: Callable[[], list[TorchFunctionMode]] = torch.overrides._get_current_function_mode_stack


def _popped(count: int) -> list[TorchFunctionMode]:
    """Pop the topmost modes, and return them from the lowest to the highest."""
    return [torch.overrides._pop_mode() for _ in range(max(count, 0))][::-1]


class _CompiledCall(threading.local):
    frame: int | None = None


_compiled_call = _CompiledCall()


@contextmanager
def on_compiled_calls(entered: Callable[[], None], left: Callable[[], None]) -> Iterator[None]:
    """Make functions that `torch.compile` returned call `entered()` before they run and `left()` afterwards.

    A mode on the stack would become part of the compiled code, and the function would be recompiled when the mode is
    removed, because the compiler's guards compare the stack. `torch._dynamo` sets the thread's frame evaluation to its
    callback during a compiled call; it uses the two functions that are replaced here (2.13 and 2.15). The first call of
    `torch.compile` imports it.
    """

    def reporting(original: Callable[[Any], Any], callback: Any) -> Any:
        """Set the callback, and report the outermost compiled call.

        The same compiler frame begins and ends a call. Other code sets the callback in between: functions marked with
        `torch.compiler.disable` do, and the compiler calls such functions itself.
        """
        caller = sys._getframe(2)
        begins = callback is not None and callback is not False and caller.f_code.co_name != "__enter__"
        if begins and _compiled_call.frame is None:
            _compiled_call.frame = id(caller)
            entered()
        prior = original(callback)
        if not begins and _compiled_call.frame == id(caller):
            _compiled_call.frame = None
            left()
        return prior

    with ExitStack() as stack:

        @functools.cache  # only once
        def report_calls() -> None:
            dynamo = sys.modules.get(_COMPILER)
            for name in ("set_eval_frame", "_maybe_set_eval_frame"):
                if hasattr(dynamo, name):
                    stack.enter_context(wrapping(dynamo, name, reporting))

        def compiling(compile_: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            import torch._dynamo.eval_frame  # noqa: F401

            report_calls()
            return compile_(*args, **kwargs)

        if _COMPILER in sys.modules:
            report_calls()
        else:
            stack.enter_context(wrapping(torch, "compile", compiling))
        yield
