"""The runs of a program from which its verdict is derived: plain, with private copies, observed, traced, and varied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autograder.tape.internals.mode_stack import eager_calls, eager_random_numbers
from autograder.tape.observe.backward_watcher import BackwardTrace
from autograder.tape.observe.left_gradients import LeftGradients
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.excerpt import FEW, Scope, calls_beyond_error, excerpt_of, is_long, recorded_part
from autograder.tape.oracle.gradient_comparison import ROUNDING, differ, diverged_at, loses_gradients
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording.verdict_types import Excerpt
from autograder.tape.run.budget import current_budget
from autograder.tape.run.finished_run import CompilingTookTooLong, Run, is_out_of_time, time_was_up
from autograder.tape.run.programs.program import Program
from autograder.tape.run.runner import Runner
from autograder.tape.run.snapshot import Snapshot

# The run with cloned saves executes the same operations on the same numbers, so even a difference as small as an
# optimizer's step is real, but not one as small as a sum whose terms cancel: other values of the output of a
# log-softmax change no gradient if those of the loss sum to zero. If the bytes of no saved tensor changed, only
# differences larger than rounding errors count.
TOLERANCE_IF_CHANGED, TOLERANCE = ROUNDING, 1e-3

# Shares of the remaining time: of the first run, and of the run with private copies after it.
FIRST, SECOND = 0.4, 0.6
PATIENCE = 0.8  # share of the remaining time that a run without a finished backward call gets
# Share of the remaining time; if a run with an error took more, other runs do not continue beyond the error.
SLOW = 0.05
TWO_MORE = 1 / 3  # largest share of the remaining time that one run takes if two more runs follow
SHORT = 0.5  # share of the budget; if less is left after the comparison, its result is given before the recording
RECORDING = 0.8  # share of the remaining time for the recording of a run without an error
SLOWER = 20  # limit for the ratio of an observed and a plain run (about 10 for small tensors)
BEGINNING = 2.0  # seconds to record of a program that does not end


@dataclass(frozen=True)
class Runs:
    """The results of all runs of a program."""

    plain: Run  # the run without an observer, which determines the outcome
    observed: Run  # the run that `observer` recorded statement by statement
    cloned_saves: Run  # the run in which backward uses private copies of all saved tensors
    observer: Observer
    untracked_effect: UntrackedEffect  # result of finite differences for modifications that autograd did not record
    trace: BackwardTrace  # the nodes that the engine visited, in order
    trace_of_copies: BackwardTrace  # those of the run with private copies
    left: LeftGradients  # the gradients of another loss that steps of that run used
    excerpt: Excerpt | None = None  # the recorded part of a long run; None if the whole run was recorded
    # for a program with compiled functions, the plain run without compilation; else None. Only `plain` runs compiled.
    eager: Run | None = None

    @property
    def limit(self) -> float:
        """The largest relative difference between two gradients that counts as equal."""
        is_changed = any(save.changed for save in self.observer.state.consumed)
        return TOLERANCE_IF_CHANGED if is_changed else TOLERANCE


def first_run(runner: Runner, scope: Scope, observer: Observer | None = None) -> Run:
    """Return the first run. With an observer or without time to compile, `torch.compile` functions run eagerly.

    The run ends at its share of the time, but not before a backward call is complete or its patience ends.

    Raises:
        ProgramError: if the program cannot be run.
    """
    budget = current_budget()
    budget.stage = "running the program unchanged"

    def patient_run(compiles: bool) -> Run:
        limit, patience = min(runner.seconds, FIRST * budget.left), min(runner.seconds, PATIENCE * budget.left)
        limited = replace(runner, seconds=limit, calls=scope.calls)
        return limited.run(observer, compiles=compiles, partial=True, patience=patience)

    try:
        return patient_run(observer is None)
    except CompilingTookTooLong:
        run = patient_run(False)
        run.gave_up_compiling = True
        return run


def all_runs(
    runner: Runner,
    plain: Run,
    scope: Scope,
    observer: Observer | None = None,
    compared: Callable[[Runs], None] | None = None,
) -> Runs:
    """Return the plain run with all others. The run that determines the outcome comes first, because time may be short.

    `observer` is the observer of the plain run, if it had one. If the comparison took much of the time, `compared` is
    called with its runs, because one long call of PyTorch can make the recording exceed the rest of the budget.
    """
    eager = repeated(runner, plain) if plain.compiled else plain
    runner = _slower(runner)
    current_budget().stage = "comparing with copies of the saved tensors"
    copies, copied = _run_with_copies(runner, eager, scope)
    is_late = current_budget().left < SHORT * current_budget().seconds
    if compared is not None and is_late and plain.error is None and not plain.compiled:
        compared(_unrecorded(runner.program, eager, copies, copied, scope))
    runs = _recorded(runner, eager, copies, copied, scope, observer)
    parted = diverged_at(eager, copied, runs.limit)
    if parted is not None and not any(save.changed and save.call == parted for save in runs.observer.state.consumed):
        copied = replace(copied, calls=copied.calls[:parted], is_truncated=True, has_diverged=True)
        runs = _recorded(runner, eager, copies, copied, scope)
    return replace(runs, plain=plain, eager=eager) if plain.compiled else runs


def _slower(runner: Runner) -> Runner:
    """Return the runner for the runs after the plain one, which are slower."""
    return replace(runner, seconds=SLOWER * runner.seconds)


def repeated(runner: Runner, plain: Run, *, compiles: bool = False) -> Run:
    """Return another run of the unchanged program, as long as the plain one."""
    calls = len(plain.calls) if plain.is_truncated else None
    return replace(_slower(runner), calls=calls).run_again(compiles=compiles)


def compiled_again(runner: Runner, runs: Runs) -> Runs:
    """Return the runs with another compiled run, which uses the random numbers of eager mode."""
    with eager_random_numbers():
        return replace(runs, plain=repeated(runner, runs.plain, compiles=True))


def _recorded(
    runner: Runner, plain: Run, copies: ClonedSavesRun, copied: Run, scope: Scope, observer: Observer | None = None
) -> Runs:
    """Return the runs with those that are recorded and traced."""
    budget = current_budget()
    is_part = is_long(plain, scope) or copied.has_diverged
    excerpt = excerpt_of(plain, copied, scope, copies.left) if is_part else None
    first = excerpt.first - 1 if excerpt else 0
    if excerpt and (excerpt.last != excerpt.calls or plain.is_truncated):  # else to the end of the run
        runner = replace(runner, calls=excerpt.last)
    budget.stage = "recording"
    seconds = min(runner.seconds, RECORDING * budget.left)
    recorder = replace(runner, seconds=seconds) if plain.error is None else runner
    observer, observed = _observe(recorder, first, None if observer is None or excerpt else (observer, plain))
    trace = copies.trace
    is_whole = plain.error is None and copied.error is None and len(plain.calls) == len(copied.calls)
    if first or not is_whole or differ(plain, copied, ROUNDING) or not trace.fits(observer.state):
        trace = BackwardTrace(first=first)
        runner.run_again(trace)
    effect = UntrackedEffect()
    if plain.error is None and not (scope.knows_gradients and differ(plain, copied, TOLERANCE)):
        budget.stage = "taking finite differences"
        asked, corrected = scope.check_gradients, not scope.is_proof
        effect = effect_of_untracked_writes(runner, observer, asked=asked, corrected=corrected)
    excerpt = recorded_part(excerpt, plain, copied, observed)
    return Runs(plain, observed, copied, observer, effect, trace, copies.trace, copies.left, excerpt)


def _unrecorded(program: Program, plain: Run, copies: ClonedSavesRun, copied: Run, scope: Scope) -> Runs:
    """Return the runs without a recorded one."""
    missing = Run(error=time_was_up())
    excerpt = recorded_part(excerpt_of(plain, copied, scope, copies.left), plain, copied, missing)
    effect, trace = UntrackedEffect(), BackwardTrace()
    return Runs(plain, missing, copied, Observer(program), effect, trace, copies.trace, copies.left, excerpt)


def _observe(runner: Runner, first: int, known: tuple[Observer, Run] | None) -> tuple[Observer, Run]:
    """Return the observed run, repeated with checks after every statement if the line of a modification is uncertain.

    A repetition that does not end in time records less than the first run.
    """
    if known is None:
        observer = Observer(runner.program, first=first)
        known = observer, runner.run_again(observer, patience=current_budget().left)
    observer, observed = known
    focus = frozenset(write.memory.id for write in observer.state.writes if not write.exact and write.changed)
    if focus and observed.took < current_budget().left:
        closer = Observer(runner.program, focus, first)
        again = runner.run_again(closer)
        if not is_out_of_time(again.error) and len(again.calls) >= len(observed.calls):
            return closer, again
    return observer, observed


def _run_with_copies(runner: Runner, plain: Run, scope: Scope) -> tuple[ClonedSavesRun, Run]:
    """Return the run with private copies. In a long program it ends after a few backward calls if one of these is harmed."""
    left, seconds = current_budget().left, runner.seconds

    def run(most: int | None, *, keeps_leaves: bool = False) -> tuple[ClonedSavesRun, Run]:
        listener = ClonedSavesRun(names_leaves=True, keeps_leaves=keeps_leaves)
        limited = replace(runner, seconds=min(seconds, SECOND * left), calls=most)
        copied = limited.run_again(listener, patience=min(seconds, left))
        if plain.is_truncated and len(copied.calls) == len(plain.calls) and not copied.in_backward:
            copied.error, copied.is_truncated = None, True  # the plain run did not get as far as to this error
        if keeps_leaves or not loses_gradients(plain, copied):
            return listener, copied
        return run(most, keeps_leaves=True)

    if plain.error is not None and plain.took > TWO_MORE * left:
        # The outcome is known, and the time is needed to find the line.
        return ClonedSavesRun(), Run(error=time_was_up())
    if not is_long(plain, scope):
        is_slow = plain.error is not None and plain.took > SLOW * left
        return run(len(plain.calls) if is_slow else calls_beyond_error(plain.error, plain.calls))
    whole = len(plain.calls) if plain.is_truncated or plain.error is not None else None
    if scope.shown is None and plain.error is None and len(plain.calls) > FEW:
        beginning = run(FEW)
        if differ(plain, beginning[1], TOLERANCE):
            return beginning
    return run(whole)


def beginning_of(runner: Runner) -> tuple[Observer, Run]:
    """Return the observed first seconds of a program that does not end."""
    observer = Observer(runner.program)
    return observer, replace(runner, seconds=BEGINNING).run_again(observer)


def cell_runs(runner: Runner, before: Snapshot) -> Runs:
    """Return the runs of a notebook cell, the last of which keeps its effects. `before` is the state before the cell.

    The runs for the correct gradients are undone, and keep the graphs of other cells.
    """
    trace, copies = BackwardTrace(keeps_graph=True), ClonedSavesRun(keeps_graph=True)
    runner.run_again(trace)
    copied = runner.run_again(copies)
    observer = Observer(runner.program)
    with eager_calls():
        live = runner.run_live(observer)
    if isinstance(live.error, (KeyboardInterrupt, SystemExit)):
        raise live.error
    effect = UntrackedEffect()
    if live.error is None and observer.state.untracked.used_writes:
        with Snapshot(runner.program.roots, runner.program.space):
            before.restore()
            effect = effect_of_untracked_writes(runner, observer)
    return Runs(live, live, copied, observer, effect, trace, copies.trace, copies.left)
