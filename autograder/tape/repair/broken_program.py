"""Input and output of a kind of fix."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.repair.code_reader import InPlaceWrite, called_in, find_writes
from autograder.tape.repair.edits import EditableSource, Edits
from autograder.tape.run.programs.source_text import ProgramError, read_source

OTHER = 2  # level of changes with other gradients or updates
LAST = 3  # level of changes with other losses


@dataclass(frozen=True)
class TriedChange:
    """A change that was run, before or after its proof."""

    candidate: Candidate
    text: str
    lines: int  # number of changed lines
    rank: int  # position of its kind in `KINDS`
    # 0 if all values stay the same, 1 if only variables have other values, `OTHER` if gradients or updates differ,
    # `LAST` if losses differ or cannot be compared
    level: int = 0
    changes: str | None = None  # difference in the computation, as a sentence; None if all values stay the same
    is_pair: bool = False

    @property
    def keeps_training(self) -> bool:
        """Whether every loss, gradient and update is the intended one."""
        return self.level < OTHER

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key. The lowest is preferred."""
        return self.level, self.lines, self.rank


def join(first: TriedChange, second: TriedChange) -> TriedChange:
    """Return the second change, whose source contains both, with the names of both kinds."""
    kinds = dict.fromkeys([first.candidate.kind, second.candidate.kind])
    return replace(second, candidate=replace(second.candidate, kind=", then ".join(kinds)), is_pair=True)


def is_like(left: Candidate, right: Candidate) -> bool:
    """Return whether a change adds nothing to another: it extends its edits, or has the same kind and position."""
    more = set(left.edits) > set(right.edits)
    return more or (left.kind == right.kind and left.edits[0].start == right.edits[0].start)


@dataclass(frozen=True)
class Candidate:
    """A proposed change of the source, before it is run."""

    kind: str  # short description of the change
    edits: Edits
    changes: str | None = None  # effect on the gradients, as a sentence; None if they should stay the same
    # sentence for the case that backward starts from other losses; None if that excludes the change
    may_change: str | None = None
    # whether the change can remove the error but not the fault; it is then offered only if all values stay the same
    may_silence: bool = False


def each_then_all(kind: str, changes: list[Edits]) -> Iterator[Candidate]:
    """Yield a change for each of several edits that are not empty, then one for all together."""
    changes = [edits for edits in changes if edits]
    for edits in [*changes, *([sum(changes, ())] if len(changes) > 1 else [])]:
        yield Candidate(kind, edits)


class BrokenProgram:
    """A broken program: its source, and the verdict on it."""

    def __init__(self, source: EditableSource, verdict: Verdict, file: str):
        self.source = source
        self.verdict = verdict
        self.file = file
        self.failures: list[str] = []  # errors that kinds of fix raised on this program, each as a sentence

    @cached_property
    def suspects(self) -> list[ast.stmt]:
        """The statements that modified a saved tensor or raised an error in the forward pass, most likely cause first."""
        places = [place for harm in self.verdict.harms for place in harm.mutated_at if place.file == self.file]
        lines = [place.line for place in places]
        if self.verdict.error and self.verdict.outcome == "raises-forward":
            lines += self.error_lines
        return self.at(lines)

    @cached_property
    def error_lines(self) -> list[int]:
        """The line of this file that raised the error, or [] if the error is in another file."""
        error = self.verdict.error
        return [error.line] if error and error.line and error.is_in(self.file) else []

    @cached_property
    def callers(self) -> list[ast.stmt]:
        """The expression statements that call a function with a suspect in its body, in this file or another."""
        functions = {getattr(self.source.scope(statement), "name", None) for statement in self.suspects} - {None}
        functions |= functions_elsewhere(self.verdict, self.file)
        statements = (statement for statement in self.source.statements() if isinstance(statement, ast.Expr))
        return [statement for statement in statements if called_in(statement) & functions]

    @cached_property
    def saving_statements(self) -> list[tuple[ast.stmt, str]]:
        """The statements whose operation saved the modified tensor, each with the tensor's name."""
        harms = [harm for harm in self.verdict.harms if harm.saved_at.file == self.file]
        saving = ((node, harm.tensor) for harm in harms for node in self.source.statements_at(harm.saved_at.line))
        return list(dict.fromkeys(saving))

    @cached_property
    def writes(self) -> list[InPlaceWrite]:
        """The in-place modifications to fix: those of suspect statements first, then all others."""
        others = [statement for statement in self.source.statements() if statement not in self.suspects]
        return [write for statement in [*self.suspects, *others] for write in find_writes(self.source, statement)]

    @cached_property
    def harmful_writes(self) -> list[InPlaceWrite]:
        """The in-place modifications of suspect statements, or all if no suspect contains one."""
        return [write for write in self.writes if write.statement in self.suspects] or self.writes

    def at(self, lines: list[int]) -> list[ast.stmt]:
        """Return the statements on the lines, without duplicates."""
        return list(dict.fromkeys(statement for line in lines for statement in self.source.statements_at(line)))


def functions_elsewhere(verdict: Verdict, file: str) -> set[str]:
    """Return the names of functions in other files that modified a saved tensor."""
    places = {place for harm in verdict.harms for place in harm.mutated_at if place.file != file}
    names = set()
    for place in places:
        with suppress(ProgramError, SyntaxError):
            source = EditableSource(read_source(place.file))
            names |= {getattr(source.scope(statement), "name", "") for statement in source.statements_at(place.line)}
    return names - {""}


Kind = Callable[[BrokenProgram], Iterator[Candidate]]
