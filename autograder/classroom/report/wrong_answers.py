"""Groups of wrong answers with the same effect: those that the source names, and others by their normal form."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from autograder.course.author_cells import AuthorError, AuthorExercise, exercises
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.locale.notebook_translation import comments_of


def normal_form(source: str) -> str:
    """Return the normal form of some code; if it is not valid Python, its words."""
    try:
        tree = ast.parse(source)
        names = _own_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)
            elif isinstance(node, ast.arg):
                node.arg, node.annotation = names.get(node.arg, node.arg), None
            match getattr(node, "body", None):
                case [ast.Expr(value=ast.Constant()), *rest]:  # a docstring
                    node.body = rest or [ast.Pass()]  # type: ignore[attr-defined]
        return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(source.split())


def without_comments(source: str) -> str:
    """Return the code without comments, because students write their names there; invalid Python is returned unchanged."""
    lines = source.splitlines()
    for token in comments_of(source):
        line, column = token.start
        lines[line - 1] = lines[line - 1][:column].rstrip()
    return "\n".join(lines).strip("\n")


def _own_names(tree: ast.Module) -> dict[str, str]:
    """Return a new name for each variable that a function of the code binds, in the order of appearance."""
    names: dict[str, str] = {}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                is_made = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                name = node.arg if isinstance(node, ast.arg) else node.id if is_made else None  # type: ignore[attr-defined]
                if name is not None and name not in ("self", "cls"):
                    names.setdefault(name, f"v{len(names)}")
    return names


class GivenAnswer(msgspec.Struct, frozen=True):
    """The code of one student's answer, and the grade of its test."""

    student: str
    code: str
    grade: CellGrade


class WrongAnswers(msgspec.Struct, frozen=True):
    """A group of answers to one exercise with the same effect."""

    name: str  # the name in the source; "" if the source does not name it
    message: str  # the verdict in the test's message
    students: tuple[str, ...]  # the students who gave such an answer
    example: str  # the answer of one of them, without comments
    hidden: bool  # whether a hidden part of the test decided
    # the student whose test has a picture of the example; "" if the picture may show a comment, which may contain a
    # name
    shown_by: str = ""


def author_exercises(source: Path) -> list[AuthorExercise]:
    """Return the exercises of a source notebook; empty for a course that uses the author's tags for another purpose."""
    try:
        return exercises(source)
    except AuthorError:
        return []


def group_wrong_answers(answers: list[GivenAnswer], named: Mapping[str, str], stub: str = "") -> list[WrongAnswers]:
    """Return the groups, the largest first.

    Answers belong together if they have the same normal form, or if the test's messages are identical: all students get
    the same inputs, so answers with different effects have different messages. A message that belongs to answers of two
    names is ignored.

    `named` contains the name of each normal form that the source names. The comments of the stub, which was handed out,
    do not contain students' names.
    """
    forms = {answer.student: normal_form(answer.code) for answer in answers}
    by_message: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        if forms[answer.student] in named:
            by_message[answer.grade.reason].add(named[forms[answer.student]])
    groups: dict[tuple[str, str], list[GivenAnswer]] = defaultdict(list)
    for answer in answers:
        names = by_message.get(answer.grade.reason, set())
        name = named.get(forms[answer.student]) or (next(iter(names)) if len(names) == 1 and _says_much(answer) else "")
        reason = answer.grade.reason
        effect = reason if _says_much(answer) else f"{verdict_of(reason)}\n{forms[answer.student]}"
        groups[name, "" if name else effect].append(answer)
    wrong_groups = [_group(name, listed, stub) for (name, _), listed in groups.items()]
    return sorted(wrong_groups, key=lambda group: (-len(group.students), group.name, group.message))


def verdict_of(reason: str) -> str:
    """Return the verdict in a test's message, without the exercise's name: the lines before the first indented one."""
    lines = itertools.takewhile(lambda line: not line.startswith("  "), reason.strip().splitlines())
    return re.sub(r"^(?!\w*(?:Error|Exception): )\w+: (?=[a-z])", "", " ".join(lines)).rstrip(".: ")


def _says_much(answer: GivenAnswer) -> bool:
    """Return whether the message contains computed numbers; an error alone does not identify the answer."""
    return bool(re.search(r"\d\.\d", answer.grade.reason))


def _group(name: str, listed: list[GivenAnswer], stub: str) -> WrongAnswers:
    example = min(listed, key=lambda answer: (_has_own_comment(answer.code, stub), len(answer.code), answer.student))
    return WrongAnswers(
        name=name,
        message=verdict_of(example.grade.reason) or example.grade.status,
        students=tuple(sorted(answer.student for answer in listed)),
        example=without_comments(example.code),
        hidden=any(answer.grade.hidden for answer in listed),
        shown_by="" if _has_own_comment(example.code, stub) else example.student,
    )


def _has_own_comment(code: str, stub: str) -> bool:
    """Return whether a student has written a comment; invalid Python may contain one after any "#"."""
    return any(comment.string not in stub for comment in comments_of(code)) or ("#" in code and not comments_of(code))


def is_wrong(grade: CellGrade) -> bool:
    """Return whether an answer was attempted and is not right, even if completion earned its points."""
    return grade.status in ("incorrect", "completed", "partly", "timed out")
