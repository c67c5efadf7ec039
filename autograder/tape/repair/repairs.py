"""Repairs of a broken program: changes of its source, each run and kept only where both oracles agree."""

from __future__ import annotations

import linecache
import time
import warnings
from dataclasses import dataclass

from autograder.tape.diagnose.record import record_program
from autograder.tape.recording.verdict_types import Fix, Problem, Verdict
from autograder.tape.repair.case import Case
from autograder.tape.repair.edits import EditableSource
from autograder.tape.repair.program_factory import Remake, remaker, remaker_of
from autograder.tape.repair.search import Prove, Search, as_fix
from autograder.tape.repair.wrong_cures import WrongCure, named_cures, wrong_cures
from autograder.tape.run.program import ProgramError

__all__ = ["proved_by_recording", "Repairs", "WrongCure", "apply", "remaker", "remaker_of", "repair", "wrong_cures"]

SECONDS = 20.0


@dataclass(frozen=True)
class Repairs:
    """What repairs a program.

    Attributes:
        fixes: the proven changes, the one that changes least first; `apply` makes them.
        meanings: for each fix, what it changes in what the program computes, None where every value is kept.
        warnings: repairs in the program that only silence PyTorch, each with the figures it gave.
        reason: why there is no fix, None where there is one or none is needed.
    """

    fixes: tuple[Fix, ...] = ()
    meanings: tuple[str | None, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes of meaning and the warnings, as sentences for a report."""
        told = [
            f"The fix in line {fix.line} ({fix.kind}) changes what is computed: {meaning}"
            for fix, meaning in zip(self.fixes, self.meanings, strict=True)
            if meaning
        ]
        return (*told, *self.warnings, *([self.reason] if self.reason else []))


def repair(
    source: str,
    verdict: Verdict,
    *,
    file: str,
    remake: Remake | None = None,
    prove: Prove | None = None,
    seconds: float = SECONDS,
) -> Repairs:
    """Returns the changes of `source` that repair it, none of them written anywhere.

    Args:
        source: the program's text; `file` the name its lines have in the verdict.
        verdict: what the program did as it is.
        remake: makes a program of a changed text (`remaker`); by default the text runs from top to bottom.
        prove: returns the verdict of a changed text; by default it is recorded.
        seconds: how long to search at most.
    """
    if verdict.outcome == "correct":
        return Repairs()
    remake = remake or remaker(file)
    search = Search(source, verdict, file, remake, prove or proved_by_recording(remake), time.monotonic() + seconds)
    kept = linecache.cache.get(search.path)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = search.look(source, verdict) or search.last_resort()
            named = tuple(dict.fromkeys(named_cures(Case(EditableSource(source), verdict, file))))
    finally:
        if kept:
            linecache.cache[search.path] = kept  # tracebacks show the user's own text again, not a candidate's
    fixes = tuple(as_fix(source, one.text, one.candidate.kind) for one in found)
    reason = None if fixes else why_none(search)
    return Repairs(fixes, tuple(one.changes for one in found), named, reason)


def why_none(search: Search) -> str:
    """Returns why there is no fix, in one sentence."""
    tried = f"{search.tried} changes were tried" if search.tried else "no known change applies"
    error = search.verdict.error
    if error and "inplace" not in error.message.replace("-", ""):
        return (
            f"No repair was found ({tried}): {error.type} in line {error.line} is not the doing of an in-place write."
        )
    return f"No repair was found: {tried}, and none makes both oracles agree with the values kept."


def proved_by_recording(remake: Remake) -> Prove:
    """Returns what records a changed text and gives its verdict; a text that cannot be run counts as raising."""

    def prove(text: str) -> Verdict:
        try:
            return record_program(remake(text)).verdict
        except ProgramError as error:
            return Verdict("raises-forward", Problem(type(error).__name__, str(error), None))

    return prove


def apply(source: str, fix: Fix) -> str:
    """Returns the source with the fix made."""
    lines = source.split("\n")
    old, new = fix.before.split("\n"), fix.after.split("\n")
    told = next((place for place, one in enumerate(old) if one.strip()), 0)
    indent = lines[fix.line - 1 + told].removesuffix(old[told])
    lines[fix.line - 1 : fix.line - 1 + len(old)] = [indent + one if one.strip() else one for one in new]
    return "\n".join(lines)
