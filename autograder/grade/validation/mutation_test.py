"""The mutation test of a source: which mutants of its model answers keep full points, and which trivial answers get points.

It also grades the author's cells tagged `right` or `wrong`, and reports those that get another verdict.
A trivial answer keeps only the imports, signatures and names of a model answer.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template

from autograder.grade.backends.grading_job import Backend
from autograder.grade.submission.cell_analysis import bound_names, statements
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.validation import validate
from autograder.grade.validation.mutants import mutants
from autograder.grade.wire.limits import Limits

CELL_SECONDS = 10.0  # a mutant may never end
SUBMISSION_SECONDS = 40.0
LONGEST_REASON = 300
SHOWN = 8  # number of passing mutants to list
WORD = re.compile(r"\w+")  # a test may name an answer in a string


@dataclass(frozen=True)
class MutationReport:
    """The result of a mutation test."""

    possible: int = 0  # number of mutants of the model answers
    tried: int = 0  # number of mutants that were graded, drawn from all
    passing: tuple[str, ...] = ()  # names of the mutants that got full points
    trivial: int = 0  # number of trivial answers that were graded
    paid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # trivial answers that got points, by test
    named: int = 0  # number of the author's right and wrong answers that were graded
    misjudged: tuple[str, ...] = ()  # those with another verdict than their tag, one sentence each
    too_slow: bool = False  # whether the model answers exceeded the limits, so that the test has no result

    @property
    def lines(self) -> Iterator[str]:
        """The numbers, then the problems for the teacher: weak tests before mutants that pass."""
        if self.too_slow:
            yield "the model answers are too slow for a mutation test, so no mutants and no trivial answers were graded"
            return
        yield f"mutants of the model answers: {self.tried} of {self.possible} tried, {len(self.passing)} pass all tests"
        yield f"trivial answers: {self.trivial} tried, tests that give points to some: {len(self.paid)}"
        if self.named:
            yield f"right and wrong answers of the source: {self.named} tried, {len(self.misjudged)} misjudged"
        yield from self.misjudged
        for test, names in self.paid.items():
            yield f"{test}: this test gives points to {', '.join(names)}; add an input or a hidden test for which that is wrong"
        yield from (f"{name} passes all tests; check whether it is correct" for name in self.passing[:SHOWN])
        if len(self.passing) > SHOWN:
            yield f"and {len(self.passing) - SHOWN} more mutants pass"


def short_limits(limits: Limits) -> Limits:
    """Return the limits for mutants, some of which never end."""
    cell, submission = min(limits.cell_seconds, CELL_SECONDS), min(limits.submission_seconds, SUBMISSION_SECONDS)
    return replace(limits, cell_seconds=cell, submission_seconds=submission)


def mutation_test(
    source: AssignmentSource,
    report: validate.SourceReport,
    backend: Backend,
    sample: int,
    on_step: validate.OnStep = validate.ignore_step,
    named: Sequence[NamedAnswer] = (),
) -> MutationReport:
    """Grade a sample of the mutants of a source's model answers, which is always the same, and every trivial answer.

    Only tests that give the model answers full points, by the report on the source, are evaluated. The backend grades
    with `short_limits`. `named` contains the author's right and wrong answers.
    """
    cells = [cell for cell in report.cells if cell.kind and cell.max_points and cell.model == cell.max_points]
    answers = dict(_tested_answers(source, {cell.id for cell in cells}))
    tensors = any("torch" in cell.text for cell in source.cells)
    every = [(answer, mutant) for answer, text in answers.items() for mutant in mutants(text, tensors=tensors)]
    tried = random.Random(0).sample(every, min(sample, len(every)))
    trivial = trivial_answers((_plain(cell.visible) for cell in source.tests), tensors=tensors)
    changes = {
        "model answers": dict[str, str](),
        **{f"mutant {i}, {name}: {mutant.edit}": {name: mutant.source} for i, (name, mutant) in enumerate(tried, 1)},
        **{way.name: {name: made_trivial(text, way) for name, text in answers.items()} for way in trivial},
        **{f"{answer}, {i}": {answer.cell: answer.text} for i, answer in enumerate(named, 1)},
    }
    model = {cell.id: cell.full for cell in source.cells if cell.is_answer}
    submissions = {
        name: (validate.with_answers(source, model | changed), report.plan) for name, changed in changes.items()
    }
    graded = validate.grade_submissions(source, submissions, backend, on_step)
    grades = {name: {} if isinstance(grade, str) else grade.cells for name, grade in graded.items()}
    most = {cell.id: cell.max_points for cell in cells}
    passing = [name for name, tests in grades.items() if all(_points(tests, test) == most[test] for test in most)]
    if "model answers" not in passing:
        return MutationReport(too_slow=True)
    paid = {
        cell.id: tuple(way.name for way in trivial if _points(grades[way.name], cell.id))
        for cell in cells
        if not cell.release
    }
    return MutationReport(
        possible=len(every),
        tried=len(tried),
        passing=tuple(name for name in passing if name.startswith("mutant ")),
        trivial=len(trivial),
        named=len(named),
        misjudged=tuple(
            filter(None, (_misjudged(answer, grades[f"{answer}, {i}"], most) for i, answer in enumerate(named, 1)))
        ),
        paid={test: passed for test, passed in paid.items() if passed},
    )


@dataclass(frozen=True)
class NamedAnswer:
    """An author's cell tagged `right` or `wrong`, the answer cell that it replaces, and the tests that judge it."""

    kind: str
    name: str
    phrase: str  # which the message must contain; "" if it is right
    text: str
    cell: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.tests[0]}: the {self.kind} answer “{self.name}”"


def _misjudged(named: NamedAnswer, grades: Mapping[str, CellGrade], most: Mapping[str, float]) -> str | None:
    """Return a sentence if an answer got another verdict than its tag says; None for tests that the model answer fails."""
    tests = [name for name in named.tests if name in most]
    if not tests or not grades:
        return None if grades else f"{named} could not be graded"
    reasons = " ".join(" ".join(grades[name].reason for name in tests).split())
    if all(_points(grades, name) == most[name] for name in tests):
        return None if named.kind == "right" else f"{named} passes: add an input for which it is wrong"
    if named.kind == "right":
        return f"{named} is refused ({reasons[:LONGEST_REASON]}): fix the test or the answer"
    if named.phrase not in reasons:
        return f"{named} is refused, but not with the words “{named.phrase}” ({reasons[:LONGEST_REASON]})"
    return None


def _points(tests: Mapping[str, CellGrade], test: str) -> float:
    return tests[test].points or 0.0 if test in tests else 0.0


def _tested_answers(source: AssignmentSource, tests: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the model answers that one of these tests checks, by grade_id, and those that are not named in any test."""
    for cell in source.cells:
        if cell.kind != "answer" or cell.cell.cell_type != "code":
            continue
        text = _plain(cell.full)
        names = {name for statement in statements(text) for name in bound_names(statement)}
        looking = {test.id for test in source.tests if names & set(WORD.findall(test.text))}
        if names and (not looking or looking & tests):
            yield cell.id, text


def _plain(text: str) -> str:
    """Return a cell's text with magics turned into Python; an empty text if it is not Python."""
    return ast.unparse(ast.Module(list(statements(text)), []))


CONSTANTS = ("None", "0", "1", "True", "False", "''", "[]", "{}", "float('nan')")
ERRORS = ("ValueError", "TypeError", "StopIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit")
ARRAYS = {
    "an empty array": "_np.empty(0)",
    "an empty array that broadcasts": "_np.empty((0, 1, 1, 1))",
    "a masked array": "_np.ma.masked_array(_np.zeros(_shape($first)), True)",
    "a masked array of one number": "_np.ma.masked_array([0.0], True)",
    "a 0-d array": "_np.array(0.0)",
    "a 0-d array of 1": "_np.array(1.0)",
    "a NaN array": "_np.full(_shape($first), _np.nan)",
}
TENSORS = {
    "an empty tensor": "_torch.empty(0)",
    "an empty tensor that broadcasts": "_torch.empty(0, 1, 1, 1)",
    "a 0-d tensor": "_torch.tensor(0.0)",
    "a NaN tensor": "_torch.full(_shape($first), float('nan'))",
}
NUMPY = """
import numpy as _np
def _shape(value):
    return (value,) if type(value) is int and 0 < value < 1000 else tuple(_np.shape(value)) or (1,)
"""
WRITE_ZEROS = """
def _write_zeros(*values):
    ways = [
        lambda value: value.detach().zero_(),
        lambda value: value.fill(0),
        lambda value: value.__setitem__(slice(None), 0),
        lambda value: value.__setitem__(slice(None), [0] * len(value)),
    ]
    for value in values:
        for write in ways:
            try: write(value)
            except Exception: continue
            break
"""
LOOK_UP = """
def _look_up(name, given):
    rows = _CALLS.get(name) or [((), None)]
    given = [repr(value) for value in given.values()]
    same = (result for arguments, result in rows if [repr(value) for value in arguments] == given[: len(arguments)])
    return next(same, rows[0][1])
"""


@dataclass(frozen=True)
class TrivialAnswer:
    """A way to answer without solving the exercise.

    In its texts, $name is the name of the function or variable, and $all are all arguments.
    """

    name: str  # for example "this test gives points to `return x`"
    body: str  # body of every function; $first and $last are its arguments
    value: str = "None"  # value of every variable
    before: str = ""  # code before everything else


def trivial_answers(visible_tests: Iterable[str], *, tensors: bool) -> list[TrivialAnswer]:
    """Return all trivial answers in a fixed order; some of them use constants from the released text of the tests."""
    arrays = [(name, text, NUMPY) for name, text in ARRAYS.items()]
    arrays += [(name, text, f"{NUMPY}import torch as _torch") for name, text in TENSORS.items() if tensors]
    shown = f"{_shown_values(visible_tests)}{LOOK_UP}"
    zeros = "zeros written into the arguments"
    answers = [
        *((f"`return {text}`", f"return {text}", text) for text in CONSTANTS),
        ("`return x`", "return $first"),
        ("`return` of the last argument", "return $last"),
        ("`return x * 0`", "return $first * 0", "0.0"),
        *((name, f"return {text}", text.replace("$first", "None"), before) for name, text, before in arrays),
        ("an object equal to everything", "return _ANY", "_ANY", "from unittest.mock import ANY as _ANY"),
        (zeros, "_write_zeros($all)\nreturn $first", "0", WRITE_ZEROS),
        (f"{zeros}, and `return 0`", "_write_zeros($all)\nreturn 0", "0", WRITE_ZEROS),
        *((f"`raise {error}`", f"raise {error}") for error in ERRORS),
        ("the constants of the visible tests", "return _look_up('$name', locals())", "_NAMES.get('$name')", shown),
    ]
    return [TrivialAnswer(*fields) for fields in answers]


def made_trivial(answer: str, trivial: TrivialAnswer) -> str:
    """Return the text of an answer cell in plain Python, with a trivial answer instead of the solution."""
    parts = [part for statement in ast.parse(answer).body for part in _trivial(statement, trivial)]
    return f"{trivial.before}\n{ast.unparse(ast.Module(parts, []))}"


def _trivial(statement: ast.stmt, trivial: TrivialAnswer) -> Iterator[ast.stmt]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield statement
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield _with_body(statement, trivial)
    elif isinstance(statement, ast.ClassDef):
        changed = copy.copy(statement)
        methods = [part for part in statement.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
        changed.body = [_with_body(method, trivial) for method in methods] or [ast.Pass()]
        yield changed
    else:
        names = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for name in sorted(names):
            yield from ast.parse(f"{name} = {Template(trivial.value).substitute(name=name)}").body


def _with_body(function: ast.FunctionDef | ast.AsyncFunctionDef, trivial: TrivialAnswer) -> ast.stmt:
    changed, parameters = copy.copy(function), function.args
    every = [argument.arg for argument in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)]
    names = [name for name in every if name != "self"] or ["None"]
    body = Template(trivial.body).substitute(first=names[0], last=names[-1], all=", ".join(names), name=function.name)
    changed.body = ast.parse("pass" if function.name == "__init__" else body).body
    return changed


def _shown_values(visible_tests: Iterable[str]) -> str:
    """Return the definitions of `_CALLS` and `_NAMES`: the literals that tests compare with a call or a name."""
    calls: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for asked, shown in (pair for text in visible_tests for pair in _compared(text)):
        if isinstance(asked, ast.Name):
            names.setdefault(asked.id, ast.unparse(shown))
        elif isinstance(asked, ast.Call) and isinstance(asked.func, ast.Name) and all(map(_is_literal, asked.args)):
            arguments = "".join(f"{ast.unparse(argument)}, " for argument in asked.args)
            calls.setdefault(asked.func.id, []).append(f"(({arguments}), {ast.unparse(shown)})")
    rows = ", ".join(f"{name!r}: [{', '.join(known)}]" for name, known in calls.items())
    return f"_CALLS = {{{rows}}}\n_NAMES = {{{', '.join(f'{name!r}: {text}' for name, text in names.items())}}}"


def _compared(text: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the operands of a comparison, or the first two arguments of a call, if the second of them is a literal."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.Call(args=[left, right, *_]):
                yield from (pair for pair in ((left, right), (right, left)) if _is_literal(pair[1]))


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True
