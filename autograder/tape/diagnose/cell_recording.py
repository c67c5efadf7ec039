"""Record a notebook cell: runs that are undone first, then the run whose effects stay."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from autograder.tape.diagnose.assembly import assemble
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.record import run_again
from autograder.tape.diagnose.unknown_outcome import refuse_inherited
from autograder.tape.internals.mode_stack import eager_calls
from autograder.tape.observe.backward_watcher import BackwardTrace
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording.schema import Recording
from autograder.tape.run.once import SECONDS as RUN_SECONDS
from autograder.tape.run.once import run_live
from autograder.tape.run.programs.program import from_cell
from autograder.tape.run.snapshot import Snapshot


@dataclass(frozen=True)
class RecordedCell:
    """A cell that has run.

    Attributes:
        value: value of its last expression; None if it ends with a statement.
        roots: values of the notebook's variables before the cell ran.
        before: state before the cell; restoring it undoes the cell.
    """

    recording: Recording
    value: object
    roots: tuple[object, ...]
    before: Snapshot


def record_cell(source: str, space: dict[str, Any], seconds: float = RUN_SECONDS) -> RecordedCell:
    """Return the record of a cell that runs in `space`, the namespace of a notebook.

    The runs for the correct gradients come first and are undone. They keep the graphs of other cells.

    Raises:
        ProgramError: if the source is not Python, or changes tensors that the graph of an earlier cell saved, so that
            the outcome is unknown.
    """
    program, trace, cloned_saves = (
        from_cell(source, space),
        BackwardTrace(keep_graph=True),
        ClonedSavesRun(keep_graph=True),
    )
    before = Snapshot(program.roots, program.space)
    run_again(program, trace, nullcontext, seconds)
    meant = run_again(program, cloned_saves, cloned_saves.around, seconds)
    observer = Observer(program)
    with eager_calls():
        live = run_live(program, observer, observer.watching)
    if isinstance(live.error, (KeyboardInterrupt, SystemExit)):
        raise live.error
    effect = UntrackedEffect()
    if live.error is None and observer.state.untracked.used_writes:
        after = Snapshot(program.roots, program.space)
        before.restore()
        effect = effect_of_untracked_writes(program, observer, seconds)
        after.restore()
    evidence = Evidence(live, live, meant, observer, effect, trace)
    refuse_inherited(program.file, evidence)
    recording = assemble(program, evidence, cloned_saves)
    return RecordedCell(recording, live.returned, program.roots, before)
