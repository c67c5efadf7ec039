"""The internals of nbgrader on which the adapter relies: each row of its table. Runs with any nbgrader, without PyTorch."""

import ast
import contextlib
import copy
import datetime
import importlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import nbgrader
import pytest
from IPython.lib.pretty import pretty
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import ComputeChecksums, GetGrades, InstantiateTests, SaveAutoGrades
from sqlalchemy import Engine, event, text
from traitlets import TraitError
from traitlets.config import Config

from autograder.grade import nbgrader_adapter
from autograder.grade.nbgrader_adapter import (
    AutotestsBy,
    add_assignment,
    add_grades,
    changed_cells,
    digest_of_marks,
    fill_grades,
    late_plugin,
    open_gradebook,
    seconds_late,
    transaction,
    update_structure,
)

PLACE = {"notebook": "nb", "assignment": "ps", "student": "ann"}


def cell(name: str, text: str = "pass", *, points: float | None = None, **shape: bool) -> nbformat.NotebookNode:
    """Return a cell with nbgrader's metadata."""
    known = {
        "grade_id": name,
        "grade": points is not None and not shape.get("task"),
        "solution": False,
        "locked": False,
        "task": False,
    }
    known |= {"schema_version": 3, "cell_type": "code"} | shape | ({} if points is None else {"points": points})
    make = nbformat.v4.new_markdown_cell if shape.get("task") else nbformat.v4.new_code_cell
    return make(text, metadata={"nbgrader": known})


def graded_cell(name: str, points: float = 1, text: str = "assert f()") -> nbformat.NotebookNode:
    """Return a test."""
    return cell(name, text, points=points, locked=True)


ANSWER, TEST = cell("f", "def f():\n    return 1", solution=True), graded_cell("test_f", 2)
WRITTEN = cell("why", "because", points=3, solution=True)
TASK = cell("task", "draw", points=4, task=True)


def notebook(*cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook of copies of these cells, with checksums."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(cells=copy.deepcopy(list(cells)), metadata=kernel)
    return ComputeChecksums().preprocess(made, {})[0]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A gradebook without assignments; nbgrader takes a second to make one."""
    path = tmp_path_factory.mktemp("empty") / "gradebook.db"
    open_gradebook(f"sqlite:///{path}", "default_course").close()
    return path


@pytest.fixture
def course(tmp_path, empty):
    """The settings of an empty course."""
    shutil.copy(empty, tmp_path)
    config = Config()
    config.CourseDirectory.root = str(tmp_path)
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    config.GenerateAssignment.preprocessors = GENERATE
    return config


GENERATE = GenerateAssignment.preprocessors.default_args[0]


def stored(course: Config, tmp_path, *cells: nbformat.NotebookNode, tests=None) -> str | None:
    """Add the assignment with these cells, and returns nbgrader's reason if it refuses them."""
    path = tmp_path / "nb.ipynb"
    nbformat.write(notebook(*cells), path)
    return add_assignment(copy.deepcopy(course), "ps", [path], tests or {})


def opened(course: Config) -> Gradebook:
    """Open the gradebook."""
    return open_gradebook(course.CourseDirectory.db_url, "default_course")


@pytest.fixture
def graded(course, tmp_path):
    """A course in which ann has submitted an answer, a written answer and a task; yields its gradebook."""
    assert stored(course, tmp_path, ANSWER, TEST, WRITTEN, TASK) is None
    with opened(course) as book:
        book.add_student("ann")
        book.add_submission("ps", "ann")
        yield book


def rows(book: Gradebook) -> dict[str, tuple]:
    """Return ann's automatic and manual points and whether a person is waited for, by cell."""
    submitted = book.find_submission_notebook("nb", "ps", "ann")
    return {grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade) for grade in submitted.grades}


def test_a_gradebook_is_made_without_alembic_on_the_path(tmp_path, monkeypatch):
    """The version of its tables is the one for which nbgrader starts the program `alembic`."""
    program = "from nbgrader.api import get_alembic_version; print(get_alembic_version())"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    expected = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    monkeypatch.setenv("PATH", "/nowhere")
    with open_gradebook(f"sqlite:///{tmp_path / 'new.db'}", "default_course") as book:
        assert [] == book.assignments
        assert expected == book.db.execute(text("SELECT version_num FROM alembic_version")).scalar_one()


def test_a_locked_gradebook_is_waited_for(course, tmp_path, monkeypatch):
    """SQLite itself waits until the lock is gone, and gives up after the time that is set."""
    opened(course).close()
    lock = sqlite3.connect(tmp_path / "gradebook.db", check_same_thread=False, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    threading.Timer(1.5, lambda: lock.execute("ROLLBACK")).start()
    start = time.monotonic()
    with opened(course) as book:
        book.add_student("ann")
    assert time.monotonic() - start > 1
    monkeypatch.setattr(nbgrader_adapter, "LOCK_SECONDS", 0.1)
    with opened(course) as book:
        lock.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="locked"):
            book.add_student("ben")


def test_a_transaction_is_whole_or_nothing(course):
    """nbgrader's own methods, each of which commits, have no effect if a later one fails."""
    with opened(course) as book:
        with contextlib.suppress(MissingEntry), transaction(book):
            book.add_assignment("ps")
            book.add_notebook("nb", "ps")
            book.find_assignment("other")
        assert [] == book.assignments
        with transaction(book):
            book.add_assignment("ps")
            book.add_notebook("nb", "ps")
    with opened(course) as book:
        assert ["nb"] == [one.name for one in book.find_assignment("ps").notebooks]


@pytest.mark.parametrize("mark", [None, 1.5])
def test_grades_are_filled_as_by_nbgrader(graded, course, mark):
    """A test that passed, an untouched written answer and a task give the rows that SaveAutoGrades gives."""
    submitted = graded.find_submission_notebook("nb", "ps", "ann")
    graded.find_grade("why", "nb", "ps", "ann").manual_score = mark
    graded.db.commit()
    fill_grades(
        submitted, {"test_f": 2.0, "why": 0.0, "task": None}, {"f": "No response.", "why": "No response.", "task": None},
        unchanged=False,
    )  # fmt: skip
    graded.db.commit()
    ours, comments = rows(graded), {one.name: one.auto_comment for one in submitted.comments}
    about = {"nbgrader": PLACE | {"db_url": course.CourseDirectory.db_url}}
    SaveAutoGrades().preprocess(notebook(ANSWER, TEST, WRITTEN, TASK), about)
    graded.db.expire_all()
    assert ours == rows(graded)
    assert comments == {one.name: one.auto_comment for one in submitted.comments}


@pytest.mark.parametrize(
    ("unchanged", "points", "waits"), [(True, None, False), (False, None, True), (True, 0.0, True)]
)
def test_manual_points_stay_settled_for_an_unchanged_submission(graded, unchanged, points, waits):
    """They wait for a person again after a new submission, or if the automatic points have changed."""
    grade = graded.find_grade("why", "nb", "ps", "ann")
    grade.manual_score, grade.needs_manual_grade = 1.5, False
    submitted = graded.find_submission_notebook("nb", "ps", "ann")
    fill_grades(submitted, {"test_f": 2.0, "why": points, "task": None}, {}, unchanged=unchanged)
    assert (points, 1.5, waits) == rows(graded)["why"]


def test_feedback_has_the_grades_that_nbgrader_gives_it(graded, course):
    """Scores, maxima and comments in the metadata of the cells, and the notebook's own, as by GetGrades."""
    submitted = graded.find_submission_notebook("nb", "ps", "ann")
    fill_grades(submitted, {"test_f": 2.0, "why": 0.0, "task": None}, {"f": "No response."}, unchanged=False)
    graded.find_comment("why", "nb", "ps", "ann").manual_comment = "Say more."
    submitted.late_submission_penalty = 0.5
    graded.db.commit()
    ours, theirs = notebook(ANSWER, TEST, WRITTEN, TASK), notebook(ANSWER, TEST, WRITTEN, TASK)
    about = {"nbgrader": PLACE | {"db_url": course.CourseDirectory.db_url}}
    GetGrades().preprocess(theirs, about)
    grades = add_grades(ours, submitted)
    assert digest_of_marks([("why", None, None, "Say more.")]) == grades.pop("marks")
    theirs_too = {key: about["nbgrader"][key] for key in ("score", "max_score", "late_penalty")}
    assert theirs_too | {"due": None, "submitted": None} == grades
    waiting = {one.metadata.nbgrader.grade_id: one.metadata.nbgrader.pop("waiting", None) for one in ours.cells}
    assert {"f": None, "test_f": False, "why": False, "task": True} == waiting
    assert not any(one.metadata.nbgrader.pop("manual", False) for one in ours.cells)
    assert [one.metadata for one in theirs.cells] == [one.metadata for one in ours.cells]


CHANGES = {
    "none": ([ANSWER, TEST, WRITTEN, TASK], [], []),
    "another text and more points": ([ANSWER, graded_cell("test_f", 5, "assert g()"), WRITTEN, TASK], [], []),
    "a test more": ([ANSWER, TEST, graded_cell("new"), WRITTEN, TASK], [], ["new"]),
    "a test less": ([ANSWER, WRITTEN, TASK], ["test_f"], []),
    "an answer less": ([TEST, WRITTEN, TASK], ["f"], []),
    "a locked cell more": ([cell("given", locked=True), ANSWER, TEST, WRITTEN, TASK], [], ["given"]),
    "a written answer that gives no points": ([ANSWER, TEST, cell("why", solution=True), TASK], ["why"], []),
    "all others": ([graded_cell("a"), cell("b", solution=True)], ["f", "task", "test_f", "why"], ["a", "b"]),
}


@pytest.mark.parametrize(("cells", "lost", "gained"), CHANGES.values(), ids=CHANGES)
def test_changes_of_a_graded_source_are_found_and_accepted(graded, course, tmp_path, cells, lost, gained):
    """They are found where nbgrader refuses the source; after the update it accepts it, and other manual points are kept."""
    for name, mark in (("test_f", 0.5), ("why", 1.5), ("task", 2.5)):
        graded.find_grade(name, "nb", "ps", "ann").manual_score = mark
    graded.db.commit()
    sources = {"nb": cells}
    assert (lost, gained) == changed_cells(graded, "ps", sources)
    reason = stored(course, tmp_path, *cells)
    assert bool(lost or gained) == (reason is not None)
    if reason is not None:
        assert "Cannot add or remove cells for notebook 'nb'" in reason
        with transaction(graded):
            update_structure(graded, "ps", sources)
        assert ([], []) == changed_cells(graded, "ps", sources)
        assert stored(course, tmp_path, *cells) is None
    graded.db.expire_all()
    marks = {"test_f": 0.5, "why": 1.5, "task": 2.5}
    kept = {one.metadata.nbgrader.grade_id for one in cells if "points" in one.metadata.nbgrader}
    assert {name: marks.get(name) for name in kept} == {name: mark for name, (_, mark, _) in rows(graded).items()}
    graded.add_student("ben")
    fresh = graded.add_submission("ps", "ben").notebooks[0]
    ann = graded.find_submission_notebook("nb", "ps", "ann")
    for kind in ("grades", "comments"):
        assert sorted(one.cell_id for one in getattr(fresh, kind)) == sorted(one.cell_id for one in getattr(ann, kind))


def test_a_notebook_more_and_a_notebook_less_are_accepted(graded, course, tmp_path):
    """Cells are then named with their notebook."""
    sources = {"other": [graded_cell("test_g")]}
    lost = ["nb/f", "nb/task", "nb/test_f", "nb/why"]
    assert (lost, ["other/test_g"]) == changed_cells(graded, "ps", sources)
    with transaction(graded):
        update_structure(graded, "ps", sources)
    path = tmp_path / "other.ipynb"
    nbformat.write(notebook(graded_cell("test_g")), path)
    assert add_assignment(copy.deepcopy(course), "ps", [path], {}) is None
    graded.db.expire_all()
    [submitted] = graded.find_submission("ps", "ann").notebooks
    assert ("other", ["test_g"]) == (submitted.name, [grade.name for grade in submitted.grades])


def test_all_cells_of_a_notebook_are_stored_in_few_transactions(course, tmp_path):
    """nbgrader's own preprocessor commits each cell: as often as there are rows."""
    commits = []

    def count(connection):
        commits.append(connection)

    event.listen(Engine, "commit", count)
    try:
        assert stored(course, tmp_path, *(graded_cell(f"test_{number}") for number in range(30))) is None
    finally:
        event.remove(Engine, "commit", count)
    assert 0 < len(commits) < 20
    with opened(course) as book:
        assert 30 == len(book.find_notebook("nb", "ps").grade_cells) == len(book.find_notebook("nb", "ps").source_cells)


def test_known_tests_replace_autotest_lines_without_a_kernel(course, tmp_path):
    """The gradebook has the test's text, and nothing is run."""
    source = graded_cell("test_f", 1, "### AUTOTEST f()")
    known = {"nb": {"test_f": "assert f() == 1"}}
    assert stored(course, tmp_path, cell("f", "1 / 0", solution=True), source, tests=known) is None
    with opened(course) as book:
        assert "assert f() == 1" == book.find_source_cell("test_f", "nb", "ps").source


def test_nbgraders_reason_is_one_line(course, tmp_path):
    """For a source with two cells of one id, and for one without the end of its hidden tests."""
    twice = stored(course, tmp_path, TEST, TEST)
    assert "Notebook failed to validate; the nbgrader metadata may be corrupted." in twice
    assert "\n" not in twice
    hidden = graded_cell("hidden", 1, "### BEGIN HIDDEN TESTS\nassert f()")
    assert "No end hidden tests statement found" in stored(course, tmp_path, ANSWER, hidden)


def test_the_courses_own_late_plugin_is_used():
    """By its class or its name; an invalid plugin is refused."""
    assert isinstance(late_plugin(Config()), LateSubmissionPlugin)
    named = Config(AssignLatePenalties={"plugin_class": "nbgrader.plugins.LateSubmissionPlugin"})
    assert isinstance(late_plugin(named), LateSubmissionPlugin)
    with pytest.raises((TraitError, ImportError)):
        late_plugin(Config(AssignLatePenalties={"plugin_class": "nowhere.Plugin"}))


def test_work_without_a_due_date_is_not_late(graded):
    """This includes an extension, for which nbgrader itself fails."""
    submission = graded.find_submission("ps", "ann")
    submission.extension, submission.timestamp = datetime.timedelta(days=1), datetime.datetime(2026, 1, 2)
    assert 0.0 == seconds_late(submission)
    submission.assignment.duedate, submission.extension = datetime.datetime(2026, 1, 1), None
    assert 86_400.0 == seconds_late(submission)


def test_cells_are_recorded_by_nbgraders_own_kinds(course, tmp_path):
    """`SaveCells` writes rows for exactly the cells that `changed_cells` expects."""
    assert stored(course, tmp_path, ANSWER, TEST, WRITTEN, TASK, cell("free")) is None
    with opened(course) as book:
        recorded = nbgrader_adapter.recorded_cells(book.find_notebook("nb", "ps"))
    wanted = nbgrader_adapter.wanted_cells([ANSWER, TEST, WRITTEN, TASK, cell("free")])
    assert set(wanted) == set(recorded)


def test_autotest_lines_become_nbgraders_tests_without_a_kernel(tmp_path):
    """Word for word those that nbgrader makes by running the source in a kernel."""
    templates = Path(nbgrader.__file__).parent / "tests" / "apps" / "files" / "autotests.yml"
    shutil.copy(templates, tmp_path)
    lines = "### AUTOTEST f(2); [f(1), 'x']; {'a': 1.5}\n### HASHED AUTOTEST f(3)"
    source = notebook(cell("f", "def f(x):\n    return 2 * x", solution=True), graded_cell("test_f", 1, lines))
    names: dict = {}

    def run(text: str) -> str | None:
        body = ast.parse(text).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
        return None if value is None else pretty(value)

    here = {"metadata": {"path": str(tmp_path)}}
    ours = AutotestsBy()
    ours.run_code = run
    found, _ = ours.preprocess(copy.deepcopy(source), dict(here))
    expected, _ = InstantiateTests().preprocess(copy.deepcopy(source), dict(here))
    assert [one.source for one in expected.cells] == [one.source for one in found.cells]
    assert "### AUTOTEST" not in found.cells[1].source


def private_uses(tree: ast.Module) -> set[str]:
    """Return the private names of nbgrader and IPython that a module imports, reads or overrides."""
    theirs, found = {}, set()
    for node in ast.walk(tree):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module.partition(".")[0] in ("nbgrader", "IPython"):
            whole = importlib.import_module(module)
            theirs |= {alias.asname or alias.name: getattr(whole, alias.name, None) for alias in node.names}
            found |= {alias.name for alias in node.names if alias.name.startswith("_")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root = node.value.func if isinstance(node.value, ast.Call) else node.value
            found |= {node.attr} if isinstance(root, ast.Name) and root.id in theirs else set()
        if isinstance(node, ast.ClassDef):
            bases = [theirs[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in theirs]
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            found |= {name for name in methods if any(hasattr(base, name) for base in bases)}
    return {name for name in found if name.startswith("_") and not name.endswith(("__", "_default"))}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from nbgrader.preprocessors import GetGrades as A\nA()._get_score(cell)", {"_get_score"}),
        ("from nbgrader.preprocessors import GetGrades\nclass A(GetGrades):\n    def _get_score(self): ...", {"_get_score"}),
        ("from IPython.core.magic import _hidden", {"_hidden"}),
        ("from nbgrader.preprocessors import GetGrades\nclass A(GetGrades):\n    def preprocess(self): ...", set()),
        ("from nbgrader.preprocessors import GetGrades\nclass A(GetGrades):\n    def _own(self): ...", set()),
    ],
)  # fmt: skip
def test_the_search_for_private_names_finds_them(text, found):
    """Attributes, overrides and imports; not names of our own."""
    assert found == private_uses(ast.parse(text))


def test_no_other_module_uses_a_private_name():
    """The overrides of IPython's shell are in one more module."""
    folder = Path(nbgrader_adapter.__file__).parent
    known = {folder / "nbgrader_adapter.py", folder / "sandbox" / "shell.py"}
    uses = {path: private_uses(ast.parse(path.read_text("utf-8"))) for path in folder.rglob("*.py")}
    assert {} == {path.name: names for path, names in uses.items() if names and path not in known}
    assert all(uses[path] for path in known)
