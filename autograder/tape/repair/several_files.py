"""Repairs of a program in several files: in the file that writes, in one that it is called from, or in two together."""

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
    """A repair that was run: the changed text of one file, or of two; the last of them says what the whole does."""

    changes: tuple[tuple[ProgramFactory, TriedChange], ...]

    @property
    def whole(self) -> TriedChange:
        """What the changes do together."""
        return self.changes[-1][1]


def editable_files(factory: ProgramFactory, verdict: Verdict) -> list[ProgramFactory]:
    """Returns a factory for each file that a harm or the error names, the one that writes first, and the program's own."""
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
    """Whether each run of the program imports the file again; what lives in this process has imported it before."""
    program = factory.original
    return not program.roots and program.space is None and file.endswith(".py") and is_own_file(file)


def find_in_files(searches: list[Search], search_of: SearchOf) -> list[FoundRepair]:
    """Returns the repairs of the first file that has some; else those of two files; else changes of what is computed.

    Args:
        searches: one for each file.
        search_of: makes the search in a further file.
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
    """Yields the repairs that need a change of this search's file and one of another file, for the first such change."""
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
