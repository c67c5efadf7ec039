"""Find fixes of a broken program: run changes of its source, and keep those with correct gradients."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import dataclass

from msgspec.structs import replace

from autograder.locale.translations import counted_in_english, in_english, translatable
from autograder.tape.diagnose.excerpt import BEYOND, WHOLE, Scope
from autograder.tape.recording.verdict_types import Fix, Verdict, line_of, note_on_change
from autograder.tape.repair.broken_program import BrokenProgram
from autograder.tape.repair.search import Prove, Search
from autograder.tape.repair.several_files import FoundRepair, editable_files, find_in_files
from autograder.tape.repair.source.edits import EditableSource
from autograder.tape.repair.source.fix_text import as_diff, as_fix
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.repair.tried_change import TriedChange
from autograder.tape.repair.wrong_cures import cures_in_use
from autograder.tape.run.budget import budget_in_force


@dataclass(frozen=True)
class Repairs:
    """The fixes of a program.

    Attributes:
        fixes: fixes that keep all losses and gradients, smallest first; if there are none, fixes that change the
            computation. Use `apply_fix` to apply them.
        meanings: for each fix, the changes of computed values, as a sentence; None if every value is kept.
        warnings: attempted fixes in the program that have no effect, each with the resulting gradient, and errors of
            the search.
        reason: reason why there is no fix; None if there is one, or if none is needed.
    """

    fixes: tuple[Fix, ...] = ()
    meanings: tuple[str | None, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes of meaning and the warnings, as sentences for a report."""
        return (*(note_on_change(fix) for fix in self.fixes if fix.changes), *self.warnings)


def find_repairs(factory: ProgramFactory, verdict: Verdict, *, prove: Prove | None = None) -> Repairs:
    """Return the changes of a program's source that fix it, without writing a file.

    Args:
        factory: the program, and a constructor for its changed versions.
        verdict: the verdict on the unchanged program.
        prove: returns the verdict on a changed source; by default, the changed program is recorded.
    """
    if verdict.outcome == "correct":
        return Repairs()
    if factory.obstacle:
        return Repairs(reason=factory.obstacle)
    files = editable_files(factory, verdict)
    known = {file.path: linecache.cache.get(file.path) for file in files}
    searches: list[Search] = []
    scope = compared_part(verdict)

    def search_of(file: ProgramFactory, seen: Verdict) -> Search:
        reference = searches[0].reference if searches else None
        searches.append(Search(file, seen, prove, scope, reference))
        return searches[-1]

    try:
        with warnings.catch_warnings(action="ignore"):
            found = find_in_files([search_of(file, verdict) for file in files], search_of)
            named = named_cures(factory, verdict) if files[0] is factory else ()
    finally:
        # Tracebacks show the user's source again.
        linecache.cache.update({path: lines for path, lines in known.items() if lines})
    fixes = tuple(_fix(one) for one in found)
    failed = [failure for search in searches for failure in search.failures]
    named = tuple(dict.fromkeys([*named, *failed]))
    return Repairs(fixes, tuple(one.whole.changes for one in found), named, None if fixes else _why_none(searches))


def named_cures(factory: ProgramFactory, verdict: Verdict) -> tuple[str, ...]:
    """Return notes on attempted fixes in the program's own file that have no effect on the error."""
    program = BrokenProgram(EditableSource(factory.source), verdict, factory.file)
    return tuple(dict.fromkeys(cures_in_use(program)))


def _fix(found: FoundRepair) -> Fix:
    """Return the Fix: the change of its first file, with the changes of other files in `more`."""
    first, *more = (_change(factory, tried) for factory, tried in found.changes)
    whole = found.whole
    return replace(
        first,
        proven=whole.keeps_training,
        effect=translatable("same losses and gradients")
        if whole.keeps_training
        else translatable("changes what is computed"),
        changes=whole.changes or "",
        diff="".join(one.diff for one in (first, *more)),
        more=tuple(more),
    )


def _change(factory: ProgramFactory, tried: TriedChange) -> Fix:
    text = factory.source
    return replace(
        as_fix(text, tried.text, tried.candidate.kind),
        file=factory.imported.file if factory.imported else None,
        diff=as_diff(factory.written(text), factory.written(tried.text), factory.file),
    )


def _why_none(searches: list[Search]) -> str:
    """Return the reason why there is no fix, as a sentence."""
    count = sum(search.tried for search in searches)
    tried = counted_in_english(count, "{count} change was tried", "{count} changes were tried")
    tried = tried if count else in_english("no known change applies")
    if budget_in_force().is_spent:
        return in_english(
            "The time limit was reached before a fix was verified: {tried}. Use `--budget` for more time.", tried=tried
        )
    error = searches[0].verdict.error
    if error and "inplace" not in error.message.replace("-", ""):
        place = error.place(searches[0].factory.original.file)
        told = {"tried": tried, "error": error.type}
        if place is None:
            return in_english("No fix was found ({tried}): an in-place modification did not cause {error}.", **told)
        return in_english(
            "No fix was found ({tried}): an in-place modification did not cause {error} in {place}.",
            **told, place=line_of(place, searches[0].factory.original.file),
        )  # fmt: skip
    if not count:
        return in_english("No fix was found: {tried}.", tried=tried)
    return counted_in_english(
        count,
        "No fix was found: {tried}, and it does not give the right gradients or does not keep the values.",
        "No fix was found: {tried}, and none of them gives the right gradients and keeps the values.",
        tried=tried,
    )


def compared_part(verdict: Verdict) -> Scope:
    """Return the part of a long run that shows whether a change fixes it: a few steps beyond the harmed one."""
    excerpt = verdict.excerpt
    return WHOLE if excerpt is None else Scope(excerpt.last + BEYOND, excerpt.last - 1)
