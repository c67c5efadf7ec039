"""A function mode that comes and goes without the rest of the program noticing, and the numbers that PyTorch gives to nodes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.entry_points import replaced

# The number that the next node made in this thread will have, and the number of a node. The engine goes by them (2.13 and 2.15).
next_sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
FIRST = 1 << 63  # accumulating a gradient comes before everything else: its nodes have numbers beyond this


def sequence_number(node: Any) -> int:
    """Returns how many nodes the node's thread had made before it; FIRST or more for a node that accumulates a gradient."""
    return node._sequence_nr()


def put_on(mode: TorchFunctionMode, above: int | None = None) -> None:
    """Puts a mode on this thread's stack: on top, or above so many others.

    `with mode:` takes off whatever is on top at its end, and so the wrong one where blocks end out of order, as in generators.
    """
    others = _taken_off(0 if above is None else _height() - above)
    for one in [mode, *others]:
        torch.overrides._push_mode(one)


def stands(mode: TorchFunctionMode) -> bool:
    """Returns whether a mode is on this thread's stack."""
    return any(one is mode for one in torch.overrides._get_current_function_mode_stack())


def take_off(mode: TorchFunctionMode) -> int | None:
    """Takes a mode off this thread's stack; returns how many were below it, None where it was not there."""
    stack = torch.overrides._get_current_function_mode_stack()
    place = next((index for index, one in enumerate(stack) if one is mode), None)
    if place is not None:
        others = _taken_off(len(stack) - place)[1:]
        for one in others:
            torch.overrides._push_mode(one)
    return place


def dispatch_modes() -> bool:
    """Returns whether a dispatch mode is on: it would see the operations by which we look, and might not bear them."""
    return torch._C._len_torch_dispatch_stack() > 0


def function_modes() -> bool:
    """Returns whether a function mode is on: it may change what every function of PyTorch does; a default device is one (2.13)."""
    return _height() > 0


def _height() -> int:
    return len(torch.overrides._get_current_function_mode_stack())


def _taken_off(count: int) -> list[TorchFunctionMode]:
    """Takes the topmost modes off; returns them from the bottom up."""
    return [torch.overrides._pop_mode() for _ in range(max(count, 0))][::-1]


@contextmanager
def told_of_compiled_calls(entered: Callable[[], None], left: Callable[[], None]) -> Iterator[None]:
    """Inside, a function made by `torch.compile` calls `entered()` before it runs and `left()` after.

    A mode on the stack would be compiled into it, and the function compiled again when the mode is gone: the compiler's guards
    compare the stack. `torch._dynamo` sets the frame evaluation of the thread to its callback for the time of a compiled call,
    by the two names that are replaced here (2.13 and 2.15). It is loaded by the first `torch.compile`.
    """
    with ExitStack() as stack:

        def tell() -> None:
            dynamo = sys.modules.get("torch._dynamo.eval_frame")
            for name in ("set_eval_frame", "_maybe_set_eval_frame"):
                if hasattr(dynamo, name):
                    stack.enter_context(replaced(dynamo, name, _telling(getattr(dynamo, name), entered, left)))

        if "torch._dynamo.eval_frame" in sys.modules:
            tell()
        else:
            stack.enter_context(replaced(torch, "compile", _first(torch.compile, tell)))
        yield


def _telling(original: Callable, entered: Callable[[], None], left: Callable[[], None]) -> Callable:
    """Return a function that sets the callback and reports the outermost compiled call; the same compiler frame begins and ends it.

    Meanwhile others set it as well: what `torch.compiler.disable` marks does, and the compiler uses such functions itself.
    """

    def set_eval_frame(callback):
        caller = sys._getframe(1)
        begins = callback is not None and callback is not False and caller.f_code.co_name != "__enter__"
        if begins and _compiled_call.frame is None:
            _compiled_call.frame = id(caller)
            entered()
        prior = original(callback)
        if not begins and _compiled_call.frame == id(caller):
            _compiled_call.frame = None
            left()
        return prior

    return set_eval_frame


class _CompiledCall(threading.local):
    frame: int | None = None


_compiled_call = _CompiledCall()


def _first(compile_: Callable, then: Callable[[], None]) -> Callable:
    """Returns `torch.compile`, which calls `then()` once when it has loaded what it needs."""
    waiting = [then]

    def compiling(*args, **kwargs):
        import torch._dynamo.eval_frame  # noqa: F401

        while waiting:
            waiting.pop()()
        return compile_(*args, **kwargs)

    return compiling
