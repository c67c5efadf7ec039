"""A program explained: the recording of what it does, with the changes of its source that were shown to work."""

from __future__ import annotations

from msgspec import structs

from autograder.tape.diagnose.cell_recording import record_cell
from autograder.tape.diagnose.record import record_program
from autograder.tape.recording.schema import Recording
from autograder.tape.repair.program_factory import ProgramFactory, factory_of_cell
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.run.program import from_cell
from autograder.tape.run.snapshot import Snapshot


def explain_program(factory: ProgramFactory, *, repair: bool = True) -> Recording:
    """Returns the recording of a program, with fixes and the notes on them in its verdict.

    Args:
        repair: search for repairs where the outcome is not "correct"; this takes up to 20 seconds.

    Raises:
        ProgramError: it cannot be run; the message says in one sentence what was seen and what to do.
    """
    recording = record_program(factory.original)
    return with_repairs(recording, factory) if repair else recording


def with_repairs(recording: Recording, factory: ProgramFactory) -> Recording:
    """Returns the recording with the repairs of its program, and the notes on them, in its verdict."""
    verdict = recording.verdict
    found = find_repairs(factory, verdict)
    completed = structs.replace(verdict, fixes=found.fixes, notes=(*verdict.notes, *found.notes))
    return structs.replace(recording, verdict=completed)


def explain_cell(source: str, space: dict, *, repair: bool = True) -> tuple[Recording, object]:
    """Returns the recording of a notebook cell with its repairs, and the value of the cell's last expression.

    The cell runs once in `space`, and what it did stays. Every other run starts from what the cell found there and is undone.

    Raises:
        ProgramError: the text is not Python.
    """
    done = record_cell(source, space)
    if not repair or done.recording.verdict.outcome == "correct":
        return done.recording, done.value
    after = Snapshot((*done.roots, *from_cell(source, space).roots), space)
    done.before.restore()
    try:
        return with_repairs(done.recording, factory_of_cell(source, space)), done.value
    finally:
        after.restore()
