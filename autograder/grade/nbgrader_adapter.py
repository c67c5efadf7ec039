"""All code in `grade` that overrides, replaces or copies internals of nbgrader. It imports nothing else of `grade`, and not PyTorch.

Elsewhere, `grade` uses nbgrader's public names: gradebook models, `nbgrader.utils`, and preprocessors and plugins
through the methods that are documented for overriding. The overrides of IPython's shell are in
`autograder/grade/sandbox/shell.py` (IPython 9.18). `tests/grade/test_nbgrader_adapter.py` tests each row of this table,
and that no other module reads a private name.

| here                 | nbgrader (checked with 0.9.6)                                                             |
|----------------------|-------------------------------------------------------------------------------------------|
| `open_gradebook`     | `api.get_alembic_version` starts a program for seconds; no time to wait for locks is set  |
| `transaction`        | methods of `api.Gradebook` commit one by one                                              |
| `fill_grades`        | `SaveAutoGrades._add_score` and `_add_comment`                                            |
| `add_grades`         | `GetGrades._get_score` and `_get_comment`                                                 |
| `wanted_cells`       | `SaveCells.preprocess_cell`                                                               |
| `update_structure`   | `SaveCells._create_notebook` and `Gradebook.add_submission`                               |
| `add_assignment`     | `GenerateAssignment` copies every file, and logs its reason as a traceback                |
| `SaveCellsTogether`  | `SaveCells._create_notebook` commits each cell                                            |
| `KnownTests`         | replaces `InstantiateTests`, which starts a kernel                                        |
| `AutotestsBy`        | `InstantiateTests.preprocess` and `_execute_code_snippet`                                 |
| `late_plugin`        | `AssignLatePenalties.init_plugin`                                                         |
| `seconds_late`       | `SubmittedAssignment.total_seconds_late` fails without a due date                         |
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import api, utils
from nbgrader.apps import NbGraderAPI
from nbgrader.dbutil import ALEMBIC_DIR
from nbgrader.plugins import BasePlugin
from nbgrader.preprocessors import AssignLatePenalties, InstantiateTests, NbGraderPreprocessor, SaveCells
from sqlalchemy.engine import make_url
from traitlets import Dict
from traitlets.config import Config

LOCK_SECONDS = 60.0  # time to wait while another program has locked a SQLite gradebook


def open_gradebook(address: str, course_id: str) -> api.Gradebook:
    """Return the gradebook, which is created if it does not exist; the caller closes it."""
    api.get_alembic_version = _version_of_tables
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        url = url.update_query_dict({"timeout": str(LOCK_SECONDS)})
    return api.Gradebook(url.render_as_string(hide_password=False), course_id)


def _version_of_tables() -> str | None:
    from alembic.script import ScriptDirectory  # imported here because only a new gradebook needs it

    return ScriptDirectory(ALEMBIC_DIR).get_current_head()


@contextlib.contextmanager
def transaction(book: api.Gradebook) -> Iterator[Any]:
    """Commit the changes of this context together, or none of them if it raises; yields the session."""
    session = book.db()
    commit = session.commit
    session.commit = lambda: None
    try:
        yield session
        commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        del session.commit


def fill_grades(
    notebook: api.SubmittedNotebook,
    points: Mapping[str, float | None],
    comments: Mapping[str, str | None],
    *,
    unchanged: bool,
) -> None:
    """Set the automatic points and comments of a submitted notebook, by cell; points are None if a person has to decide.

    Manual points and comments are kept. If the same submission was graded before, then, unlike in nbgrader, a cell with
    manual points does not have to be graded by a person again.
    """
    source = notebook.notebook
    # Read all names at once: `grade.name` and `comment.name` query the database each time.
    names = {cell.id: cell.name for cell in (*source.grade_cells, *source.solution_cells, *source.task_cells)}
    for grade in notebook.grades:
        automatic, is_marked = points[names[grade.cell_id]], grade.manual_score is not None
        if not (is_marked and unchanged and grade.auto_score == automatic):
            grade.needs_manual_grade = is_marked or automatic is None
        grade.auto_score = automatic
    for comment in notebook.comments:
        if (name := names[comment.cell_id]) in comments:
            comment.auto_comment = comments[name]


def add_grades(notebook: NotebookNode, submitted: api.SubmittedNotebook) -> dict[str, Any]:
    """Put the scores and comments of the gradebook into the metadata of a graded notebook's cells.

    Unlike in nbgrader, the metadata of each graded cell also state whether a person has to grade it, or has graded it.
    Returns the notebook's "score" after the late penalty, its "max_score", its "late_penalty", a hash of its manual
    "marks", and the times in UTC when the submission was "due" and "submitted", None if unknown.
    """
    comments = {comment.name: comment.comment for comment in submitted.comments}
    grades = {grade.name: grade for grade in submitted.grades}
    marks = [(name, grade.manual_score, grade.extra_credit, None) for name, grade in grades.items()]
    marks += [(comment.name, None, None, comment.manual_comment) for comment in submitted.comments]
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if utils.is_solution(cell) or utils.is_task(cell):
            metadata["comment"] = comments.get(metadata.get("grade_id"))
        if (utils.is_grade(cell) or utils.is_task(cell)) and metadata.get("grade_id") in grades:
            grade = grades[metadata["grade_id"]]
            waiting = bool(grade.needs_manual_grade and grade.manual_score is None)
            manual = grade.manual_score is not None or bool(grade.extra_credit)
            metadata.update(score=grade.score, points=grade.max_score, waiting=waiting, manual=manual)
    penalty = submitted.late_submission_penalty or 0.0
    about = {"score": submitted.score - penalty, "max_score": submitted.max_score, "late_penalty": penalty}
    about |= {"due": submitted.assignment.duedate, "submitted": submitted.assignment.timestamp}
    return about | {"marks": digest_of_marks(marks)}


def digest_of_marks(marks: Iterable[tuple[str, float | None, float | None, str | None]]) -> str:
    """Return a hash of a notebook's manual points, extra credit and manual comments by cell; "" without any."""
    hand_marks = sorted(repr(mark) for mark in marks if mark[1] is not None or mark[2] or mark[3])
    return hashlib.sha256(repr(hand_marks).encode()).hexdigest()[:16] if hand_marks else ""


CellKind = type[api.GradeCell] | type[api.SolutionCell] | type[api.TaskCell] | type[api.SourceCell]
KINDS: tuple[CellKind, ...] = (api.GradeCell, api.SolutionCell, api.TaskCell, api.SourceCell)
# the attributes of a notebook with the rows of these kinds
ROWS = ("grade_cells", "solution_cells", "task_cells", "source_cells")


def wanted_cells(cells: list[NotebookNode]) -> dict[tuple[CellKind, str], NotebookNode]:
    """Return the cells of a source that nbgrader records, by the kind of their rows in the gradebook and their ids."""
    cells_by_id = {}
    for cell in cells:
        graded, answer, task = utils.is_grade(cell), utils.is_solution(cell), utils.is_task(cell)
        is_recorded = graded or answer or task or utils.is_locked(cell)
        for kind, applies in zip(KINDS, (graded, answer, task, is_recorded), strict=True):
            if applies:
                cells_by_id[kind, cell.metadata.nbgrader["grade_id"]] = cell
    return cells_by_id


def recorded_cells(notebook: api.Notebook) -> dict[tuple[CellKind, str], Any]:
    """Return the rows of a notebook's cells, with the same keys as `wanted_cells`."""
    return {(kind, row.name): row for kind, rows in zip(KINDS, ROWS, strict=True) for row in getattr(notebook, rows)}


def changed_cells(
    book: api.Gradebook, assignment: str, sources: Mapping[str, list[NotebookNode]]
) -> tuple[list[str], list[str]]:
    """Return the ids of the cells that the sources of an assignment with submissions have lost and gained.

    Both lists are empty for an assignment without submissions, because `add_assignment` handles its changes.
    """
    stored_assignment = next((row for row in book.assignments if row.name == assignment), None)
    if stored_assignment is None or not stored_assignment.submissions:
        return [], []
    recorded = {notebook.name: notebook for notebook in stored_assignment.notebooks}
    before = {(name, *key) for name, notebook in recorded.items() for key in recorded_cells(notebook)}
    after = {(name, *key) for name, cells in sources.items() for key in wanted_cells(cells)}
    prefix = len(recorded.keys() | sources.keys()) > 1

    def ids(cells: set[tuple[Any, ...]]) -> list[str]:
        return sorted({f"{notebook}/{cell}" if prefix else cell for notebook, _, cell in cells})

    return ids(before - after), ids(after - before)


def update_structure(book: api.Gradebook, assignment: str, sources: Mapping[str, list[NotebookNode]]) -> None:
    """Add and remove notebooks and cells of an assignment that has submissions; must be called in a transaction.

    Grades of removed cells are deleted, all others are kept. `add_assignment` then stores the texts and points of the
    cells.
    """
    recorded = {notebook.name: notebook for notebook in book.find_assignment(assignment).notebooks}
    for name in recorded.keys() - sources.keys():
        book.remove_notebook(name, assignment)
    for name, cells in sources.items():
        notebook = recorded.get(name) or book.add_notebook(name, assignment)
        _update_cells(book, notebook, wanted_cells(cells))
        submitted = {row.assignment_id: row for row in notebook.submissions}
        for submission in book.find_assignment(assignment).submissions:
            row = submitted.get(submission.id) or api.SubmittedNotebook(notebook=notebook, assignment=submission)
            _add_missing_rows(book, notebook, row)


def _update_cells(
    book: api.Gradebook, notebook: api.Notebook, wanted: dict[tuple[CellKind, str], NotebookNode]
) -> None:
    recorded = recorded_cells(notebook)
    for key in recorded.keys() - wanted.keys():
        row = recorded[key]
        for entry in (*row.grades, *row.comments) if isinstance(row, api.BaseCell) else ():
            book.db.delete(entry)
        book.db.delete(row)
    for kind, name in wanted.keys() - recorded.keys():
        cell = wanted[kind, name]
        about: dict[str, Any] = {} if kind is api.SolutionCell else {"cell_type": cell.cell_type}
        if kind in (api.GradeCell, api.TaskCell):
            about["max_score"] = float(cell.metadata.nbgrader["points"])
        book.db.add(kind(name=name, notebook=notebook, **about))
    book.db.flush()
    book.db.expire_all()


def _add_missing_rows(book: api.Gradebook, notebook: api.Notebook, submitted: api.SubmittedNotebook) -> None:
    graded = {grade.cell_id for grade in submitted.grades}
    commented = {comment.cell_id for comment in submitted.comments}
    for cell in (*notebook.grade_cells, *notebook.task_cells):
        if cell.id not in graded:
            book.db.add(api.Grade(cell_id=cell.id, notebook=submitted, needs_manual_grade=False))
    for cell in (*notebook.solution_cells, *notebook.task_cells):
        if cell.id not in commented:
            book.db.add(api.Comment(cell_id=cell.id, notebook=submitted))


class KnownTests(NbGraderPreprocessor):
    """A replacement for InstantiateTests, for sources whose AUTOTEST lines have already been turned into tests."""

    cells = Dict(help="The text of each test, by the notebook's name and the cell's grade_id.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook with the tests."""
        texts = self.cells.get(resources["nbgrader"]["notebook"], {})
        for cell in nb.cells:
            if utils.is_grade(cell) and cell.cell_type == "code":
                cell.source = texts.get(cell.metadata.nbgrader["grade_id"], cell.source)
        return nb, resources


class AutotestsBy(InstantiateTests):
    """Turns AUTOTEST lines into tests without a kernel, with the settings of `c.InstantiateTests`."""

    run_code: Callable[[str], str | None]  # runs code and returns its displayed value as text

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook with tests instead of AUTOTEST lines."""
        kernel = nb.metadata.get("kernelspec", {}).get("name", "")
        if kernel not in self.comment_strs or kernel not in self.sanitizers:
            raise ValueError(f"the notebook's kernel is {kernel!r}, which c.InstantiateTests does not support")
        resources["kernel_name"] = kernel
        self._load_test_template_file(resources)
        self.global_tests_loaded, self.sanitizer = True, self.sanitizers[kernel]
        return NbGraderPreprocessor.preprocess(self, nb, resources)

    def _execute_code_snippet(self, code: str) -> str | None:
        shown = self.run_code(code)
        return None if shown is None else self.sanitizer(shown)


class SaveCellsTogether(SaveCells):
    """Commits all cells of a notebook together; nbgrader commits each cell, and a disk may take 30 ms for that."""

    def _create_notebook(self, nb: NotebookNode) -> None:
        with transaction(self.gradebook):
            super()._create_notebook(nb)


def add_assignment(
    config: Config, assignment: str, notebooks: list[Path], tests: dict[str, dict[str, str]]
) -> str | None:
    """Store an assignment's cells in the gradebook with `nbgrader generate_assignment`; return its reason if it fails.

    Other files than the notebooks are not copied, because nbgrader would read pipes and devices to their end. `tests`
    contains the code of each test, by the notebook's name and the cell's grade_id. The configuration is changed.
    """
    ours = {InstantiateTests: KnownTests, SaveCells: SaveCellsTogether}
    config.GenerateAssignment.preprocessors = [
        ours.get(stage, stage) if isinstance(stage, type) else stage
        for stage in config.GenerateAssignment.preprocessors
    ]
    config.KnownTests.cells = tests
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "source", assignment)
        place.mkdir(parents=True)
        for path in notebooks:
            shutil.copy(path, place)
        config.CourseDirectory.source_directory = str(place.parent)
        config.CourseDirectory.release_directory = str(Path(folder, "release"))
        nbgrader = NbGraderAPI(config=config)
        nbgrader.log.setLevel(logging.ERROR)
        result = nbgrader.generate_assignment(assignment, force=True, create=True)
    if result["success"]:
        return None
    return _last_error(result.get("log") or "") or _last_error(result.get("error") or "") or "it gave no reason"


def _last_error(text: str) -> str:
    """Return the end of the last traceback in nbgrader's log, whose lines are indented, or else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line.strip() for line in reversed(lines) if line.startswith("    ")), "".join(lines[-1:]))


def late_plugin(config: Config) -> BasePlugin:
    """Return the plugin for late penalties that a course configures."""
    preprocessor = AssignLatePenalties(config=config)
    preprocessor.init_plugin()
    return preprocessor.plugin_inst


def seconds_late(submission: api.SubmittedAssignment) -> float:
    """Return the lateness of a submission in seconds; 0.0 without a due date."""
    return float(submission.total_seconds_late) if submission.assignment.duedate else 0.0
