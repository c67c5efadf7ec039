"""Repairs of a broken program: changes of its source, each run and kept only where the gradients are then right."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import dataclass

from msgspec.structs import replace

from autograder.tape.diagnose.excerpt import WHOLE, Scope
from autograder.tape.diagnose.record import record_program
from autograder.tape.recording.verdict_types import Fix, Problem, Verdict, note_on_change
from autograder.tape.repair.broken_program import BrokenProgram
from autograder.tape.repair.edits import EditableSource
from autograder.tape.repair.fix_text import as_diff, as_fix
from autograder.tape.repair.program_factory import ProgramFactory
from autograder.tape.repair.search import Prove, Search, TriedChange
from autograder.tape.repair.wrong_cures import cures_in_use
from autograder.tape.run.source_text import ProgramError

BEYOND = 4  # backward calls after the harmed one: a GAN makes several before each of its networks is updated


@dataclass(frozen=True)
class Repairs:
    """What repairs a program.

    Attributes:
        fixes: those that keep every loss and gradient, the smallest first; where there is none, those that change what is computed.
            `apply_fix` makes them.
        meanings: for each fix, what it changes in what the program computes, None where every value is kept.
        warnings: what the program does against the error that does not help, each with the gradient it gave.
        reason: why there is no fix; None where there is one, or where none is needed.
    """

    fixes: tuple[Fix, ...] = ()
    meanings: tuple[str | None, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes of meaning and the warnings, as sentences for a report."""
        told = [note_on_change(fix) for fix in self.fixes if fix.changes]
        return (*told, *self.warnings, *([self.reason] if self.reason else []))


def find_repairs(factory: ProgramFactory, verdict: Verdict, *, prove: Prove | None = None) -> Repairs:
    """Returns the changes of a program's text that repair it; none is written anywhere.

    Args:
        factory: the program, and what makes it of a changed text.
        verdict: what the program did as it is.
        prove: returns the verdict of a changed text; by default it is recorded.
    """
    if verdict.outcome == "correct":
        return Repairs()
    if factory.obstacle:
        return Repairs(reason=factory.obstacle)
    text, path = factory.source, factory.original.code_file
    known = linecache.cache.get(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            scope = compared_part(verdict)
            search = Search(factory, verdict, prove or prove_by_recording(factory, scope), scope)
            found = search.look(text, verdict) or search.changing_repairs()
            named = tuple(dict.fromkeys(cures_in_use(BrokenProgram(EditableSource(text), verdict, factory.file))))
    finally:
        if known:
            linecache.cache[path] = known  # so that tracebacks show the user's own text again
    fixes = tuple(_fix(factory, one) for one in found)
    return Repairs(fixes, tuple(one.changes for one in found), named, None if fixes else _why_none(search))


def _fix(factory: ProgramFactory, found: TriedChange) -> Fix:
    text = factory.source
    return replace(
        as_fix(text, found.text, found.candidate.kind),
        proven=found.keeps_training,
        effect="same losses and gradients" if found.keeps_training else "changes what is computed",
        changes=found.changes or "",
        diff=as_diff(text, found.text, factory.file),
    )


def _why_none(search: Search) -> str:
    """Returns why there is no fix, in one sentence."""
    tried = f"{search.tried} changes were tried" if search.tried else "no known change applies"
    error = search.verdict.error
    if error and "inplace" not in error.message.replace("-", ""):
        where = f" in line {error.line}" if error.line else ""
        return f"No repair was found ({tried}): {error.type}{where} does not come from an in-place write."
    return f"No repair was found: {tried}, and none of them gives the right gradients and keeps the values."


def compared_part(verdict: Verdict) -> Scope:
    """Returns what of a long run has to be run to see whether a change repairs it: a few steps beyond the one that was harmed."""
    excerpt = verdict.excerpt
    return WHOLE if excerpt is None else Scope(excerpt.last + BEYOND, excerpt.last - 1)


def prove_by_recording(factory: ProgramFactory, scope: Scope = WHOLE) -> Prove:
    """Returns the function that records a changed text and gives its verdict; a text that cannot be run counts as raising."""

    def prove(text: str) -> Verdict:
        try:
            return record_program(factory.make(text), scope=scope).verdict
        except ProgramError as error:
            return Verdict("raises-forward", Problem(type(error).__name__, str(error), None))

    return prove
