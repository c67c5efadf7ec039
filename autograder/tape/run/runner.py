"""Start each run of a program: seeded, with captured output and a time limit, and restore global state afterwards."""

from __future__ import annotations

import gc
import math
import mmap
import re
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import close_checkpoints, is_backward_call
from autograder.tape.internals.mode_stack import compiled_calls, eager_calls, is_compiler_file, is_compiling
from autograder.tape.internals.tensor_fields import map_only, mode_paused
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.budget import current_budget
from autograder.tape.run.child_processes import leave_threads, process_groups_kept, track_child_processes
from autograder.tape.run.engine import Backward, LastCall, Listener, summed, watched
from autograder.tape.run.entropy import isolated_globals
from autograder.tape.run.finished_run import Run, raise_if_exited, raise_if_unusable
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.snapshot import Snapshot
from autograder.tape.run.time_limit import TimeUp, time_limit

MUCH = 1 << 28  # limit for the bytes that a run may leave; a garbage collection takes a tenth of a second
_PAGES, _MEMORY, _GROUP = Path("/proc/self/statm"), Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@contextmanager
def garbage_collected() -> Iterator[None]:
    """Collect garbage after the block if it left much memory."""
    before = resident_bytes()
    try:
        yield
    finally:
        if resident_bytes() - before >= MUCH:
            gc.collect()


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not provide it (only Linux does)."""
    try:
        return int(_PAGES.read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def available_bytes() -> float:
    """Return the memory that this process may still use, or infinity if the system does not provide it (only Linux does)."""
    available = math.inf
    with suppress(OSError, ValueError):
        available = 1024 * int(re.search(r"MemAvailable: +(\d+)", _MEMORY.read_text())[1])  # type: ignore[index]
    with suppress(OSError, ValueError):  # a container, as of JupyterHub
        limit, used = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, limit - used)
    return available


# Python ignores exceptions in callbacks of weak references, which a recording uses often, so the limit raises
# repeatedly.
REPEAT_SECONDS = 0.1
# Number of sums to keep of a gradient at the end of a run if it has more than LARGE elements.
LARGE, FINAL = 1 << 22, 1 << 16
# Warnings of PyTorch 2.6 to 2.15 about gradients that are missing. Those that PyTorch shows once per process are left out,
# because a later run in this process does not show them.
GRADIENTS = (
    "None of the inputs have requires_grad=True|The .grad attribute of a Tensor that is not a leaf|Full backward hook is"
    "|Using a? ?non-full backward hook|For backward hooks to be called|`parameters` is an empty generator|Calling .zero_grad"
    "|optimizer contains a parameter group with duplicate parameters"
)
WARNINGS = 4  # maximum number of warnings that are kept
SECONDS = 60.0  # time limit of a run; lessons need milliseconds, and training scripts rarely more than this


@dataclass(frozen=True)
class Runner:
    """Starts all runs of a program. Changes to this process are undone after each run."""

    program: Program
    seconds: float = SECONDS  # time limit of a run, which also ends when the active budget is spent
    calls: int | None = None  # number of backward calls after which a run ends, before the next one; None for no limit

    def run(
        self, listener: Listener | None = None, *, compiles: bool = False, partial: bool = False, patience: float = 0.0
    ) -> Run:
        """Return the record of one run.

        Args:
            listener: its context `around` is active while the program's code runs; it is called around each backward.
            compiles: whether `torch.compile` functions run compiled, as in the run that determines the outcome; else
                they run eagerly, because compiled code cannot be observed.
            partial: whether to return the complete backward calls if the time limit is reached after some of them.
            patience: time limit while no backward call is complete, if that is larger than `seconds`.

        Raises:
            ProgramError: if the program cannot be run here (it reads input, exits with a status, does not end, or needs
                a device or memory that is not available).
        """
        program, budget = self.program, current_budget()
        limit, waits = budget.begin_run(self.seconds), min(patience, budget.left)
        compiling = compiled_calls() if compiles else eager_calls()
        world = isolated_globals(program.seeded, budget.readings)
        with (
            process_groups_kept(), garbage_collected(), Snapshot(program.roots, program.space), world as printed,
            compiling as compiled, _gradient_warnings(program) as warned,
        ):  # fmt: skip
            run = self.run_live(listener, limit, waits)
            run.warned = warned
            run.compiled = bool(compiled)
            run.returned = map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), run.returned)
            in_compiler = isinstance(run.error, TimeUp) and is_compiling(run.error)
            _let_go(run.error)
        complete = [call for call in run.calls if not isinstance(call.error, TimeUp)]
        if partial and isinstance(run.error, TimeUp) and complete:
            run.calls, run.error, run.is_truncated = complete, None, True
            run.file, run.line, run.in_backward = "", None, False
        raise_if_exited(run, printed)
        given = budget.given(max(self.seconds, patience), max(limit, waits))
        raise_if_unusable(run, given, in_compiler, partial)
        return run

    def run_again(self, listener: Listener | None = None, *, compiles: bool = False, patience: float = 0.0) -> Run:
        """Return another run of a program that has run before.

        If it cannot be run now (memory, time), the run has this error. At its time limit, the run contains the results
        so far.
        """
        try:
            return self.run(listener, compiles=compiles, partial=True, patience=patience)
        except ProgramError as error:
            return Run(error=error)

    def run_live(self, listener: Listener | None, seconds: float | None = None, patience: float = 0.0) -> Run:
        """Return the record of one run, whose changes and output are kept. If `seconds` is None, it has no time limit."""
        program, listener, threads = self.program, listener or Listener(), set(threading.enumerate())
        run, began = Run(program=program.file, root=program.scratch.root if program.scratch else ""), time.monotonic()
        with track_child_processes() as children, watched(listener, self.calls, children) as calls:
            run.calls = calls
            try:
                # The limit is the inner context, so that it raises in the program only, and not in the code that cleans up.
                clock = _until_backward(calls, seconds or 0.0, patience)
                limit = time_limit(seconds, repeat_seconds=REPEAT_SECONDS, clock=clock) if seconds else nullcontext()
                with listener.around(program), limit:
                    try:
                        with children.ended_here():
                            run.returned = program.call(lambda: len(calls))
                            children.join()
                    except LastCall:  # for a listener, the run ends without an error
                        run.is_truncated = True
                    finally:
                        if seconds is not None:
                            new = set(threading.enumerate()) - threads
                            leave_threads(new, filled=any(call.thread for call in calls))
            except ProgramError as error:
                error.args = tuple(
                    text.without(run.root) if isinstance(text, Message) else str(text).replace(run.root, "")
                    for text in error.args
                )
                raise
            except (Exception, SystemExit, KeyboardInterrupt, TimeUp) as error:
                run.error = _cause_of(_behind_exit(error, calls), program)
                run.file, run.line, run.in_backward = where(run.error, program)
                close_checkpoints(run.error)
            children.end()
            run.children, run.took = children.known(), time.monotonic() - began
            # The order of calls in different threads varies between runs; the order within a thread does not.
            run.calls = sorted(calls, key=lambda call: call.thread)
            left = {number: target for call in calls for number, target in zip(call.numbers, call.targets, strict=True)}
            run.final = {number: _left_in(target) for number, target in left.items()}
            for call in calls:
                call.targets = []  # a leaf may be large, and the next run needs the memory
        return run


@contextmanager
def _gradient_warnings(program: Program) -> Iterator[dict[str, Place]]:
    """Yield the warnings about gradients that the block raises, each with the user's line that raised it first."""
    warned: dict[str, Place] = {}

    def note(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
        if not re.match(GRADIENTS, str(message)):
            return  # a library of the program may show all warnings
        place = program.here()
        if place.line and len(warned) < WARNINGS:
            text = str(message).partition(" (Triggered internally")[0]
            warned.setdefault(" ".join(text.split()), place)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=GRADIENTS)
        warnings.showwarning = note
        yield warned


def _behind_exit(error: BaseException, calls: list[Backward]) -> BaseException:
    """Return the error because of which a program exited, such as in `except RuntimeError: sys.exit(3)`, or the error itself."""
    if not isinstance(error, SystemExit):
        return error
    if isinstance(error.__context__, RuntimeError):
        return error.__context__
    return error if error.code in (None, 0) or not calls else calls[-1].error or error


def _cause_of(error: BaseException, program: Program) -> BaseException:
    """Return PyTorch's error that a line of the user raised another error from (`raise ... from error`), or the error itself."""
    while isinstance(error.__cause__, RuntimeError) and error.__traceback__ is not None:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if not program.owns(frame.f_code.co_filename):
            break
        error = error.__cause__
    return error


def _until_backward(calls: list[Backward], seconds: float, patience: float) -> Callable[[], float]:
    """Return a clock that stops just before `seconds` until a backward call is complete or `patience` seconds have passed."""
    began = time.monotonic()

    def clock() -> float:
        now = time.monotonic()
        waits = now < began + patience and not any(call.ended and call.error is None for call in calls)
        return min(now, began + seconds - REPEAT_SECONDS) if waits else now

    return clock


def _let_go(error: BaseException | None) -> None:
    """Remove an error's tracebacks, which refer to the local variables of every function on the stack."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _left_in(target: torch.Tensor) -> torch.Tensor | None:
    with mode_paused():
        gradient = target.grad if target.is_leaf or target.retains_grad else None
        if gradient is None or gradient.numel() <= LARGE:
            return None if gradient is None else gradient.detach().clone()
        return summed(gradient, FINAL)


def where(error: BaseException, program: Program) -> tuple[str, int | None, bool]:
    """Return the file and the innermost line of the user's code in a traceback, and whether a backward call was active.

    The backward that the compiler traces while it compiles a forward is not a backward call of the program.
    """
    file, line, in_backward, compiling = "", None, False, False
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if program.owns(name):
            file, line, compiling = program.shown(name), number, False
        compiling = compiling or is_compiler_file(name)
        in_backward = in_backward or (not compiling and is_backward_call(name, frame.f_code.co_name))
    return file, line, in_backward
