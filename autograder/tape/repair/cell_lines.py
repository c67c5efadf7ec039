"""Convert a line number of a notebook's code to a cell and a line in it."""

from __future__ import annotations

from autograder.locale.translations import in_english
from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.run.programs.notebook_change import place_in_cell


def note_on_cells(factory: ProgramFactory, verdict: Verdict) -> tuple[str, ...]:
    """Return a sentence with the cells of the most important lines of the verdict, or () if the program is not a notebook."""
    lines = sorted({line for line in _lines(factory, verdict) if line})
    if factory.notebook is None or not lines:
        return ()
    named = [f"{in_english('line {line}', line=line)} = {place_in_cell(factory.source, line)}" for line in lines]
    return (in_english("Lines count through all code cells: {named}.", named="; ".join(named)),)


def _lines(factory: ProgramFactory, verdict: Verdict) -> list[int | None]:
    own = factory.original.file
    places = [
        place for harm in verdict.harms[:1] for place in (*harm.mutated_at[:2], harm.saved_at) if place.file == own
    ]
    error = verdict.error
    raised = [error.line] if error and error.is_in(own) else []
    return [*(place.line for place in places), *raised, *(fix.line for fix in verdict.fixes[:1] if not fix.file)]
