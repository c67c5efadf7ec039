"""Fixes for two losses that share a part of a graph although each should train its own network."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.order import calls_backward, names_bound, names_loaded
from autograder.tape.repair.source.edits import EditableSource, every, insert
from autograder.tape.repair.source.inplace_finder import called


def detach_shared(program: BrokenProgram) -> Iterator[Candidate]:
    """Detach a value of an earlier loss where the second loss uses it, as in `-(log_prob * adv.detach())`."""
    error = program.verdict.error
    if not error or program.verdict.outcome != "raises-backward":
        return
    for last in program.at(program.error_lines):
        if sum(map(calls_backward, program.source.block(last))) < 2:
            continue
        for statement in computing(program.source, last):
            for name in used_names(program.source, statement):
                if is_used_elsewhere(program.source, name, statement):
                    edits = (insert(program.source, name, ".detach()", after=True),)
                    yield Candidate(
                        "detach what the other loss trains",
                        edits,
                        in_english("No gradient flows from the second loss through {name} any more.", name=name.id),
                    )


def computing(source: EditableSource, last: ast.stmt) -> list[ast.stmt]:
    """Return the assignments in the block of a backward call that lead to its roots, closest first."""
    wanted = {
        one.id for call in every(ast.Call, last) if called(call) == "backward" for one in every(ast.Name, call.func)
    }
    found: list[ast.stmt] = []
    for one in reversed([one for one in source.block(last) if one.lineno <= last.lineno]):
        if isinstance(one, ast.Assign) and names_bound(one) & wanted:
            found.append(one)
            wanted |= names_loaded(one)
    return found


def used_names(source: EditableSource, statement: ast.stmt) -> list[ast.Name]:
    """Return the names whose values the statement uses, without called functions and owners of attributes."""
    loaded = [one for one in every(ast.Name, statement) if isinstance(one.ctx, ast.Load)]
    return [
        one
        for one in loaded
        if not isinstance(source.parents[one], ast.Attribute)
        and not (isinstance(holder := source.parents[one], ast.Call) and holder.func is one)
    ]


def is_used_elsewhere(source: EditableSource, name: ast.Name, statement: ast.stmt) -> bool:
    """Return whether another statement of the block assigns the name, and some other statement reads it."""
    others = [one for one in source.block(statement) if one is not statement]
    made = [one for one in others if isinstance(one, ast.Assign) and name.id in names_bound(one)]
    return bool(made) and any(
        other.id == name.id and isinstance(other.ctx, ast.Load) for one in others for other in every(ast.Name, one)
    )
