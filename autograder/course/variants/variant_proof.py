"""The validation of one variant by running it: outcomes stay, stubs count as not attempted, and right answers pass."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import io
import itertools
import linecache
from typing import Any

import msgspec
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution

from autograder.check.learner import local_subject, use_names
from autograder.check.message import Incorrect, NotAttempted, Unsolved
from autograder.check.subject.inputs import use_seed
from autograder.check.subject.subjects import LocalSubject
from autograder.course.author_cells import AuthorExercise, exercises_of, questions_of, setup_of
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, VariantError, with_choices
from autograder.course.variants.variant import TAG, redraw_notebook
from autograder.tape import record
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome

_numbers = itertools.count()


class CellNamespace:
    """The names of a student after some cells have run; checks look up names here."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"} | (names or {})

    def run(self, source: str) -> None:
        """Run one cell; `inspect.getsource` finds its source, as in IPython."""
        name = f"<cell {next(_numbers)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with use_names(self):
            exec(compile(source, name, "exec"), self.names)

    def subject(self, name: str) -> LocalSubject:
        """Return the student's function or class of that name."""
        return local_subject(name, self.names[name])

    def value(self, name: str) -> Any:
        """Return the student's value of that name."""
        return self.names[name]


class ProvenExercise(msgspec.Struct, frozen=True):
    """One exercise of a variant: its check, and the answers that passed the check."""

    id: str
    check: str
    answers: tuple[str, ...]

    @property
    def is_prediction(self) -> bool:
        """Whether its answer is a word or a line rather than a program."""
        return "def " not in self.answers[0] and "class " not in self.answers[0]


class ProvenVariant(msgspec.Struct, frozen=True):
    """A validated variant: the code before its first exercise, and its exercises."""

    setup: str
    exercises: tuple[ProvenExercise, ...]


class VariantProof:
    """Runs the answers of one variant of a source notebook, in this process; its checks draw their inputs from the seed."""

    def __init__(self, name: str, notebook: NotebookNode, seed: int) -> None:
        self._name, self._notebook, self._seed = name, notebook, seed
        self._setup = setup_of(notebook)  # if no program is to be fixed, all code
        try:
            self._names = names_after(self._setup)
        except Exception as error:
            raise VariantError(f"{name}, seed {seed}: its own cells raise {type(error).__name__}: {error}") from None

    def prove(self) -> ProvenVariant:
        """Return the variant with a right answer to each exercise.

        Raises:
            VariantError: an answer has another verdict than the author declared; the message names it.
        """
        return ProvenVariant(self._setup, tuple(map(self._proven, exercises_of(self._notebook))))

    def _proven(self, exercise: AuthorExercise) -> ProvenExercise:
        if exercise.stub and not isinstance(self._verdict(exercise.stub, exercise), NotAttempted):
            raise self._error(exercise, "the released stub counts as an attempt")
        right = [answer.source for answer in exercise.of_kind("answer", "right")]
        right = sorted(right, key=lambda source: not source.startswith("# answer")) or self._own_solution(exercise)
        for source in right:
            if refusal := self._verdict(source, exercise):
                raise self._error(exercise, f"a right answer is refused ({str(refusal).splitlines()[0]})")
        if not right:
            proven = (source for source in candidates(exercise, self._names) if self._verdict(source, exercise) is None)
            right = list(proven)[:1]
        if not right:
            raise self._error(exercise, "no answer that could be tried passes")
        return ProvenExercise(exercise.id, exercise.check, tuple(right))

    def _own_solution(self, exercise: AuthorExercise) -> list[str]:
        """Return the source's own answer in an ordinary nbgrader course: the solution cells after the previous test."""
        cells: list[str] = []
        for cell in self._notebook.cells if not exercise.stub else ():
            if is_solution(cell) and cell.cell_type == "code":
                cells.append(cell.source)
            elif cell.metadata.get("nbgrader", {}).get("grade_id") == exercise.id:
                break
            elif is_grade(cell):
                cells = []
        return ["\n".join(cells)] if cells else []

    def _verdict(self, answer: str, exercise: AuthorExercise) -> Unsolved | None:
        return verdict_on(answer, exercise.check, self._names, self._seed)

    def _error(self, exercise: AuthorExercise, problem: str) -> VariantError:
        return VariantError(f"{self._name}, {exercise.id}, seed {self._seed}: {problem}")


def names_after(setup: str) -> dict[str, object]:
    """Return the names that the code before the first exercise defines."""
    author = CellNamespace()
    with contextlib.redirect_stdout(io.StringIO()):
        author.run(setup)
    return author.names


def verdict_on(answer: str, check: str, names: dict[str, object], seed: int) -> Unsolved | None:
    """Return the exception that a check raises after this answer, or None if it passes; other exceptions become Incorrect."""
    learner = CellNamespace(names)
    with contextlib.redirect_stdout(io.StringIO()), use_seed(seed):
        try:
            learner.run(answer)
            learner.run(check)
        except Unsolved as refusal:
            return refusal
        except Exception as error:  # the answer is a program
            return Incorrect(f"{type(error).__name__}: {error}")
    return None


def candidates(exercise: AuthorExercise, names: dict[str, object]) -> list[str]:
    """Return the possible answers to a prediction: the four outcomes, each line of the program, or its return value."""
    name = exercise.stub.partition(" ")[0]
    asked = next(questions_of(exercise.check), None)
    if asked is not None and asked.asks == "predicted_value":
        learner = CellNamespace(names)
        with contextlib.redirect_stdout(io.StringIO()):
            learner.run(f"{asked.program}\n\n\nreturned = {asked.program.partition('(')[0][4:]}()")
        return [f"{name} = {learner.names['returned']!r}"]
    lines = [line.strip() for line in asked.program.splitlines()[1:]] if asked and asked.asks == "culprit" else []
    words = [f"{name} = {line!r}" for line in lines]
    return words or [f'{name} = "{outcome}"' for outcome in OUTCOMES]


def check_numbers(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> None:
    """Run the programs in which a variant replaces numbers, and compare their outcomes.

    Raises:
        VariantError: the outcome of a program depends on its numbers.
    """
    before = with_choices(notebook, changes, seed)
    after = copy.deepcopy(before)
    redraw_notebook(after, seed)
    imports = "\n".join(line for cell in before.cells for line in _imports(cell))
    for cell, original in zip(after.cells, before.cells, strict=True):
        if cell.source != original.source:
            _same_outcomes(cell, original, imports, seed)


def _imports(cell: NotebookNode) -> list[str]:
    lines = cell.source.splitlines() if cell.cell_type == "code" else []
    return [line for line in lines if line.startswith(("import ", "from torch"))]


def _same_outcomes(cell: NotebookNode, original: NotebookNode, imports: str, seed: int) -> None:
    for before, after in zip(_programs(original.source), _programs(cell.source), strict=True):
        expected, got = (_outcome(f"{imports}\n{_text(program)}", program.name) for program in (before, after))
        if expected != got:
            raise VariantError(
                f"cell {cell.id}, seed {seed}: {before.name} is {got} instead of {expected}. "
                f"Remove the tag {TAG!r} from the cell, or use another seed."
            )


@functools.cache
def _outcome(text: str, function: str) -> Outcome:
    return record(text, function=function).verdict.outcome


def _programs(source: str) -> list[ast.FunctionDef]:
    """Return the programs of a cell: the functions without arguments that it defines."""
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and not node.args.args]


def _text(program: ast.FunctionDef) -> str:
    program.decorator_list = []
    return ast.unparse(program)
