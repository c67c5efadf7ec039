"""Fixes of a program with several files: in the file of the modification, in a calling file, or in two files together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.repair.search import DEEPER, Search
from autograder.tape.repair.trial.program_factory import ProgramFactory, factory_of_import
from autograder.tape.repair.tried_change import TriedChange
from autograder.tape.run.programs.source_text import is_own_file

SearchOf = Callable[[ProgramFactory, Verdict], Search]


@dataclass(frozen=True)
class FoundRepair:
    """A fix that was run: the changed sources of one or two files. The last entry describes the combined effect."""

    changes: tuple[tuple[ProgramFactory, TriedChange], ...]

    @property
    def whole(self) -> TriedChange:
        """The combined effect of the changes."""
        return self.changes[-1][1]


def editable_files(factory: ProgramFactory, verdict: Verdict) -> list[ProgramFactory]:
    """Return a factory for each file that a harm or the error names, that of the modification first, and for the program's own."""
    written = [place.file for harm in verdict.harms for place in harm.mutated_at]
    saved = [harm.saved_at.file for harm in verdict.harms]
    raised = [verdict.error.file] if verdict.error and verdict.error.file else []
    found = []
    for file in dict.fromkeys([*written, *saved, *raised, factory.original.file]):
        if file == factory.original.file:
            found.append(factory)
        elif can_be_imported(factory, file):
            found.append(factory_of_import(factory.original, file))
    return found


def can_be_imported(factory: ProgramFactory, file: str) -> bool:
    """Return whether each run imports the file again. Programs of this process have imported it already."""
    program = factory.original
    return not program.roots and program.space is None and file.endswith(".py") and is_own_file(file)


def find_in_files(searches: list[Search], search_of: SearchOf) -> list[FoundRepair]:
    """Return the fixes of the first file that has some, or those of two files, or changes of the computation.

    Args:
        searches: a search for each file.
        search_of: creates the search in another file.
    """
    for search in searches:
        if found := search.look(search.factory.source, search.verdict):
            return [FoundRepair(((search.factory, one),)) for one in found]
    for search in searches if len(searches) > 1 else ():
        if pairs := list(find_in_two(search, search_of)):
            return pairs
    for search in searches:
        if found := search.changing_repairs():
            return [FoundRepair(((search.factory, one),)) for one in found]
    return []


def find_in_two(search: Search, search_of: SearchOf) -> Iterator[FoundRepair]:
    """Yield fixes that need a change of this search's file and a change of another file, for the first such change."""
    for failed in search.failing[:DEEPER]:
        if search.is_late():
            return
        changed, verdict = search.factory.make(failed.text), search.verdict_of(failed.text)
        others = [one for one in editable_files(ProgramFactory(changed, search.factory.make), verdict) if one.imported]
        seconds = [search_of(one, verdict) for one in others if one.file != search.factory.file]
        found = [(one.factory, fix) for one in seconds for fix in one.look(one.factory.source, verdict, depth=1)]
        if found:
            yield from (FoundRepair(((search.factory, failed), one)) for one in found)
            return
