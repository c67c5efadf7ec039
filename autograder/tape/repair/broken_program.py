"""What a kind of repair is given, and what it proposes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.repair.source.edits import EditableSource, Edits
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called, calls, find_writes
from autograder.tape.run.programs.source_text import ProgramError, read_source


@dataclass(frozen=True)
class Candidate:
    """One proposed change of the source, not yet run.

    Attributes:
        kind: what it does, in a few words a reader knows.
        changes: what it does to the gradients, as a sentence; None where they should stay the same.
        may_change: what to say if backward starts from other numbers after it; None where that rules the change out.
        may_silence: whether it can take the error away and leave the fault, so that it is offered only where all stays the same.
    """

    kind: str
    edits: Edits
    changes: str | None = None
    may_change: str | None = None
    may_silence: bool = False


class BrokenProgram:
    """A broken program: its text, and where the verdict points.

    Attributes:
        failures: the kinds of repair that failed on it themselves, each as a sentence.
    """

    def __init__(self, source: EditableSource, verdict: Verdict, file: str):
        self.source = source
        self.verdict = verdict
        self.file = file
        self.failures: list[str] = []

    @cached_property
    def suspects(self) -> list[ast.stmt]:
        """The statements that wrote into a saved tensor, or that raised in the forward pass; the most likely one first."""
        places = [place for harm in self.verdict.harms for place in harm.mutated_at if place.file == self.file]
        lines = [place.line for place in places]
        if self.verdict.error and self.verdict.outcome == "raises-forward":
            lines += self.error_lines
        return self.at(lines)

    @cached_property
    def error_lines(self) -> list[int]:
        """The line of this file that raised, alone; none where it is another file's."""
        error = self.verdict.error
        return [error.line] if error and error.line and error.is_in(self.file) else []

    @cached_property
    def callers(self) -> list[ast.stmt]:
        """The statements that only call a function in which a suspect stands, in this file or in another."""
        functions = {getattr(self.source.scope(one), "name", None) for one in self.suspects} - {None}
        functions |= functions_elsewhere(self.verdict, self.file)
        statements = (one for one in self.source.statements() if isinstance(one, ast.Expr))
        return [one for one in statements if {called(call) for call in calls(one)} & functions]

    @cached_property
    def savers(self) -> list[tuple[ast.stmt, str]]:
        """The statements whose operation saved what was written into, each with the saved tensor's name."""
        found: dict[tuple[ast.stmt, str], None] = {}
        for harm in self.verdict.harms:
            if harm.saved_at.file == self.file:
                for statement in self.source.statements_at(harm.saved_at.line):
                    found[statement, harm.tensor] = None
        return list(found)

    @cached_property
    def writes(self) -> list[InPlaceWrite]:
        """The writes to repair: those the verdict points at, then every other one in the text."""
        others = [one for one in self.source.statements() if one not in self.suspects]
        return [write for one in [*self.suspects, *others] for write in find_writes(self.source, one)]

    @cached_property
    def blamed(self) -> list[InPlaceWrite]:
        """The writes that the verdict points at, or all writes of the text if it does not point at any."""
        found = [write for write in self.writes if write.statement in self.suspects]
        return found or self.writes

    def at(self, lines: list[int]) -> list[ast.stmt]:
        """Returns the statements on the lines, each once."""
        return list(dict.fromkeys(one for line in lines for one in self.source.statements_at(line)))


def functions_elsewhere(verdict: Verdict, file: str) -> set[str]:
    """Returns the names of the functions in other files that wrote into a saved tensor."""
    places = {place for harm in verdict.harms for place in harm.mutated_at if place.file != file}
    found = set()
    for place in places:
        with suppress(ProgramError, SyntaxError):
            source = EditableSource(read_source(place.file))
            found |= {getattr(source.scope(one), "name", "") for one in source.statements_at(place.line)}
    return found - {""}


Kind = Callable[[BrokenProgram], Iterator[Candidate]]
