"""Unusual states of a student's notebook: cells out of order, run twice, missing or broken, and old variables.

None of them may pass a check by accident, and each gets a message. The kernel test at the end runs all of them in one
notebook as JupyterLab would; the others run cells in this process, for every exercise of every lesson.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import io

import nbclient
import pytest

from autograder.check.message import Incorrect, NotAttempted, Unsolved
from autograder.course.author_cells import AUTHOR_TAGS, AuthorExercise, questions_of
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from tests.lessons.sources import exercises, setup

SOURCES = {path.stem: path for path in lessons(SOLUTIONS)}
EXERCISES = [
    pytest.param(path, exercise, id=f"{path.stem[:2]} {exercise.id}")
    for path in SOURCES.values()
    for exercise in exercises(path)
]
WORDS = [
    parameters
    for parameters in EXERCISES
    if [question.asks for question in questions_of(parameters.values[1].check)] in (["predicted"], ["culprit"])
]
OTHER = [parameters for parameters in EXERCISES if parameters not in WORDS]


@functools.cache
def beginning(path) -> dict:
    """Return the names after the cells before the first exercise."""
    learner = Namespace()
    quietly(learner, setup(path))
    return learner.names


def started(path) -> Namespace:
    """Return a student who has run the cells before the first exercise."""
    learner = Namespace()
    learner.names = dict(beginning(path))
    return learner


def quietly(learner: Namespace, source: str) -> Exception | None:
    """Run one cell, and return its error."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            learner.run(source)
        except Exception as error:
            return error
    return None


def names_of(exercise: AuthorExercise) -> list[str]:
    """Return the names that an exercise's answer cell defines: a function, a class, or words to predict."""
    nodes = ast.parse(exercise.stub).body
    assigned = [
        name.id
        for node in nodes
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(node, ast.Assign)
    ]
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)] + assigned


def told(error: Exception | None) -> str:
    """Return the text of a verdict; anything else fails the test."""
    assert isinstance(error, Unsolved), repr(error)
    assert max(map(len, str(error).splitlines())) <= 76
    return str(error)


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_a_deleted_answer_is_missed(path, exercise):
    """Without the answer's cell, the message of the check is that there is nothing to check, and names the missing object."""
    text = told(quietly(started(path), exercise.check))
    assert "there is nothing to check" in text
    assert any(name in text for name in names_of(exercise))


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_an_answer_with_a_syntax_error_is_missed(path, exercise):
    """Python reports the position of the syntax error; the check after it reports that nothing was defined."""
    learner = started(path)
    assert isinstance(
        quietly(learner, exercise.stub.replace("=", "= (", 1).replace("(self", "((self", 1) + "\n)("), SyntaxError
    )
    assert "there is nothing to check" in told(quietly(learner, exercise.check))


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_a_check_before_everything_else_does_not_pass(path, exercise):
    """After a restart, with only the check's cell run, Python names the import that is missing."""
    error = quietly(Namespace(), exercise.check)
    assert isinstance(error, NameError)


@pytest.mark.parametrize(("path", "exercise"), [p for p in EXERCISES if p.values[1].answers])
def test_a_check_that_runs_twice_says_the_same(path, exercise):
    """A right answer passes twice, the stub is not attempted twice, and one after the other is judged as it is then."""
    learner = started(path)
    right = exercise.of_kind("answer")[0].source
    verdicts = []
    for answer in (right, right, exercise.stub, exercise.stub, right):
        quietly(learner, answer)
        verdicts += [type(quietly(learner, exercise.check)) for _ in range(2)]
    none, untried = type(None), NotAttempted
    assert [none] * 4 + [untried] * 4 + [none] * 2 == verdicts


@pytest.mark.parametrize("value", ["right", "", None, 5, [], {"a": 1}, "correct!"], ids=repr)
@pytest.mark.parametrize(("path", "exercise"), WORDS[:: len(WORDS) // 3])
def test_an_odd_prediction_is_told(path, exercise, value):
    """A word in capitals, a number, a list: each gets a message, and none passes."""
    learner = started(path)
    (name,) = names_of(exercise)
    learner.names[name] = value
    error = quietly(learner, exercise.check)
    assert isinstance(error, Incorrect)
    assert repr(value)[:20] in told(error)


@pytest.mark.parametrize("value", [3, "text", None, [], object()], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("path", "exercise"), OTHER[:: len(OTHER) // 4])
def test_an_answer_that_is_no_function_is_told(path, exercise, value):
    """A name of another object than a function or a class counts as undefined."""
    learner = started(path)
    for name in names_of(exercise):
        learner.names[name] = value
    told(quietly(learner, exercise.check))


def test_no_two_exercises_share_a_name():
    """A lesson's answers left in the kernel answer no exercise of another lesson."""
    names = [name for parameters in EXERCISES for name in names_of(parameters.values[1])]
    assert len(names) == len(set(names))


def assigned(source: str) -> set[str]:
    """Return the names that a cell binds at its top level."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            stored = (name for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
            found |= {name.id for name in stored}
    return found


@pytest.mark.parametrize("path", [pytest.param(path, id=name) for name, path in SOURCES.items()])
def test_no_cell_of_ours_answers_or_shadows(path):
    """No cell of a lesson defines an exercise's name or hides an import, so no order of cells helps or breaks a check."""
    answers = {name for parameters in EXERCISES for name in names_of(parameters.values[1])}
    imports = {alias.asname or alias.name for alias in imported(setup(path))}
    free = {"stub", *AUTHOR_TAGS}
    cells = [c for c in read(path).cells if c.cell_type == "code" and not free & set(c.metadata.get("tags", []))]
    assert {} == {cell.id: names for cell in cells if (names := assigned(cell.source) & (answers | imports))}


def imported(source: str) -> list[ast.alias]:
    """Return every import of some code."""
    return [
        alias
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]


@pytest.mark.slow
def test_all_lessons_fit_into_one_kernel():
    """Somebody who never restarts: with the answers and variables of all lessons around, every verdict is the same."""
    learner = Namespace()
    for path in SOURCES.values():
        quietly(learner, setup(path))
        for exercise in exercises(path):
            for answer in exercise.of_kind("answer"):
                assert quietly(learner, answer.source) is None
                assert quietly(learner, exercise.check) is None, exercise.id
    for path in SOURCES.values():
        quietly(learner, setup(path))
        for exercise in exercises(path):
            quietly(learner, exercise.stub)
            assert isinstance(quietly(learner, exercise.check), NotAttempted), exercise.id


@pytest.mark.slow
def test_a_maltreated_notebook_in_a_kernel():
    """Each cell twice, one check before the imports, one answer deleted, one broken: only the untouched right answer passes."""
    name = "02_mutating_a_saved_tensor"
    notebook = read(NOTEBOOKS / name / f"{name}.ipynb")
    right = {
        exercise.id: exercise.of_kind("answer")[0].source for exercise in exercises(SOURCES[name]) if exercise.answers
    }
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
    cells["answer_clear_after_use"].source = right["clear_after_use"]
    cells["answer_two_losses"].source = right["two_losses"] + "\n    return ("
    notebook.cells.remove(cells["answer_shifted_exp"])

    twice = [copy.deepcopy(cell) for cell in notebook.cells for _ in range(2)]
    notebook.cells = [copy.deepcopy(cells["open_gate"]), *twice]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, kernel_name="python3").execute()

    said: dict[str, list[str]] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            errors = [output.ename for output in cell.outputs if output.output_type == "error"]
            said.setdefault(cell.metadata.nbgrader.grade_id, []).append(errors[0] if errors else "passed")
            assert not any(output.get("name") == "stderr" for output in cell.outputs)
    assert ["NameError", "NotAttempted", "NotAttempted"] == said.pop("open_gate")
    assert ["passed", "passed"] == said.pop("clear_after_use")
    assert ["Missing", "Missing"] == said.pop("shifted_exp") == said.pop("two_losses")
    assert {"NotAttempted"} == {word for words in said.values() for word in words}
