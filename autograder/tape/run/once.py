"""One run of a program: seeded, silent, limited in time, and with everything global restored afterwards."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from autograder.tape.internals.compiler import compiled_calls, eager_calls, is_compiler_file, is_compiling
from autograder.tape.internals.entry_points import close_checkpoints, is_backward_call
from autograder.tape.internals.process_groups import process_groups_kept
from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.child_processes import told_of_children
from autograder.tape.run.closed_world import closed_world
from autograder.tape.run.engine import Backward, LastCall, Listener, summed, watched
from autograder.tape.run.finished_run import Run
from autograder.tape.run.memory_use import memory_given_back
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.refused_runs import refuse, refuse_exit
from autograder.tape.run.snapshot import Snapshot
from autograder.tape.run.time_limit import TimeUp, time_limit

# Python drops what a handler raises in the callback of a weak reference, and a recording has many: so the limit raises again.
REPEAT_SECONDS = 0.1
LARGE, FINAL = 1 << 22, 1 << 16  # of a gradient with more elements, so many sums are kept of what is left at the end
SECONDS = 60.0  # a run that takes longer is cut off: lessons need milliseconds, a training script rarely more


def run_once(
    program: Program,
    listener: Listener | None = None,
    around: Callable[[], AbstractContextManager] = nullcontext,
    *,
    seconds: float = SECONDS,
    compiles: bool = False,
    calls: int | None = None,
    partial: bool = False,
    patience: float = 0.0,
) -> Run:
    """Return the record of one run of `program`; its changes to this process are undone.

    Args:
        around: builds the context that the program's own code runs in.
        compiles: whether what `torch.compile` made runs compiled, in the run that decides the outcome; else it runs eagerly, because
            nobody can look into compiled code.
        seconds: how long it may take; it is cut off earlier where the budget in force ends.
        calls: after so many backward calls it ends before the next.
        partial: where the time is up after some backward calls, these are what the run did.
        patience: how long it may take while no backward call is complete, where that is more than `seconds`.

    Raises:
        ProgramError: it cannot be run here (it reads input, leaves with a status, never ends, needs a device or memory
            that is not there).
    """
    budget = budget_in_force()
    limit, waits = budget.begin_run(seconds), min(patience, budget.left)
    compiling = compiled_calls() if compiles else eager_calls()
    world = closed_world(program.seeded, budget.readings)
    with process_groups_kept(), memory_given_back(), _restored(program), world as printed, compiling as compiled:
        run = run_live(program, listener, around, limit, calls, waits)
        run.compiled = bool(compiled)
        run.returned = _copied(run.returned)
        in_compiler = isinstance(run.error, TimeUp) and is_compiling(run.error)
        _let_go(run.error)
    if partial and isinstance(run.error, TimeUp):
        _keep_complete(run)
    refuse_exit(run, program, printed)
    given = budget.given(max(seconds, patience), max(limit, waits))
    refuse(run, program, given, in_compiler, partial)
    return run


@contextmanager
def _restored(program: Program) -> Iterator[None]:
    """What the program can reach in this process is as it was, afterwards."""
    world = Snapshot(program.roots, program.space)
    try:
        yield
    finally:
        world.restore()


def run_live(
    program: Program,
    listener: Listener | None,
    around: Callable[[], AbstractContextManager],
    seconds: float | None = None,
    most: int | None = None,
    patience: float = 0.0,
) -> Run:
    """Return the record of one run of `program`, and keep its changes and output; without `seconds` there is no time limit."""
    run, began = Run(), time.monotonic()
    with told_of_children() as children, watched(listener or Listener(), most, children) as calls:
        run.calls = calls
        try:
            # The limit is inside: once raised in the program, it must not be raised again in the code that cleans up.
            clock = _until_backward(calls, seconds or 0.0, patience)
            limit = time_limit(seconds, repeat_seconds=REPEAT_SECONDS, clock=clock) if seconds else nullcontext()
            with around(), limit, _ended_early(run), children.ended_here():
                run.returned = program.call(lambda: len(calls))
                children.join()
        except ProgramError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, TimeUp) as error:
            run.error = _behind_exit(error, calls)
            run.file, run.line, run.in_backward = where(run.error, program)
            close_checkpoints(run.error)
        children.end_daemons()
        run.children, run.took = children.known(), time.monotonic() - began
        # Threads may take turns in another order in each run; what one thread does keeps its order.
        run.calls = sorted(calls, key=lambda call: call.thread)
        left = {number: target for call in calls for number, target in zip(call.numbers, call.targets, strict=True)}
        run.final = {number: _left_in(target) for number, target in left.items()}
        for call in calls:
            call.targets = []  # a leaf may be as large as all that the next run needs
    return run


def _behind_exit(error: BaseException, calls: list[Backward]) -> BaseException:
    """Return the error because of which a program left, as in `except RuntimeError: sys.exit(3)`; else the error itself."""
    if not isinstance(error, SystemExit):
        return error
    if isinstance(error.__context__, RuntimeError):
        return error.__context__
    return error if error.code in (None, 0) or not calls else calls[-1].error or error


def _until_backward(calls: list[Backward], seconds: float, patience: float) -> Callable[[], float]:
    """Returns a clock that stands still just before `seconds` until a backward call is complete, or `patience` seconds are over."""
    began = time.monotonic()

    def clock() -> float:
        now = time.monotonic()
        waits = now < began + patience and not any(call.ended for call in calls)
        return min(now, began + seconds - REPEAT_SECONDS) if waits else now

    return clock


def _let_go(error: BaseException | None) -> None:
    """Takes an error's tracebacks away: they hold the variables of every function that it came through."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


@contextmanager
def _ended_early(run: Run) -> Iterator[None]:
    """Ends the program, as if it were at its end, where its next backward need not be run."""
    try:
        yield
    except LastCall:
        run.is_cut = True


def _keep_complete(run: Run) -> None:
    """Makes of a run that ran out of time what it did until then, if there was a complete backward call."""
    complete = [call for call in run.calls if not isinstance(call.error, TimeUp)]
    if complete:
        run.calls, run.error, run.is_cut = complete, None, True
        run.file, run.line, run.in_backward = "", None, False


def _left_in(target: torch.Tensor) -> torch.Tensor | None:
    with unheard():
        gradient = target.grad if target.is_leaf or target.retains_grad else None
        if gradient is None or gradient.numel() <= LARGE:
            return None if gradient is None else gradient.detach().clone()
        return summed(gradient, FINAL)


def _copied(value: object) -> object:
    """Return a program's result with copies of its tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


def where(error: BaseException, program: Program) -> tuple[str, int | None, bool]:
    """Returns the file and the innermost line of the user's own code, and whether a backward call was under way.

    The backward of the compiler, which it traces while it compiles a forward, is none of the program's.
    """
    file, line, in_backward, compiling = "", None, False, False
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if program.owns(name):
            file, line, compiling = program.shown(name), number, False
        compiling = compiling or is_compiler_file(name)
        in_backward = in_backward or (not compiling and is_backward_call(name, frame.f_code.co_name))
    return file, line, in_backward
