"""Writes the feedback folder of a class, which contains only a page for each graded notebook, without hidden tests."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import Exporter
from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from traitlets import Enum, default
from traitlets.config import Config

from autograder.errors import printable
from autograder.grade.batch.course_folders import AssignmentFolders, opened_gradebook
from autograder.grade.batch.feedback_page import localize_messages, page_html
from autograder.grade.batch.student_submission import replaced_folder, write_file
from autograder.grade.nbgrader_adapter import add_grades
from autograder.grade.policy import read_policy
from autograder.grade.submission.cell_analysis import has_code
from autograder.locale.languages import language_of, use_language
from autograder.locale.translations import translated
from autograder.tape.run.time_limit import TimeUp, time_limit

HIDDEN_TEST_LEVELS = ("none", "name", "message")
PAGE_SECONDS = 60.0  # for the pages of one student; the pages of a lesson take a fraction of a second
LONGEST_REASON = 300
VERSION = re.compile(rb'<meta name="autograder-page" content="([\w ]+)">')
HEAD_BYTES = 1000  # of a page, with its meta elements


class GetGradesAndWaiting(NbGraderPreprocessor):
    """For nbgrader's own command: adds the grades, and marks each cell that a person still has to grade."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook with scores and comments in the metadata of its cells."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            submitted = book.find_submission_notebook(about["notebook"], about["assignment"], about["student"])
            about.update(add_grades(nb, submitted))
        return nb, resources


class FeedbackExporter(Exporter):
    """For nbgrader's own command: exports a graded notebook as a page of this package."""

    output_mimetype = "text/html"

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **options: Any) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        """Return the page, and the resources that nbconvert's preprocessors have filled."""
        notebook, resources = super().from_notebook_node(nb, resources, **options)
        folder = str(resources.get("metadata", {}).get("path") or "")
        return page_html(notebook, dict(resources["nbgrader"]), folder), resources


def configure_feedback(config: Config, level: str = "name") -> None:
    """Make `nbgrader generate_feedback` write such pages, with this level of `CoverHiddenTests`; for `nbgrader_config.py`."""
    config.GenerateFeedback.preprocessors = [GetGradesAndWaiting, CoverHiddenTests]
    config.GenerateFeedback.exporter_class = FeedbackExporter
    config.CoverHiddenTests.level = level


def write_feedback(folders: AssignmentFolders, students: list[str], level: str, jobs: int) -> dict[str, str]:
    """Write the pages of these students with `jobs` processes; return the reason for each student whose pages cannot be written."""
    if not students:
        return {}
    count = min(jobs, len(students))
    slices = [(folders, students[start::count], level) for start in range(count)]
    with multiprocessing.get_context("fork").Pool(count) as pool:
        return {student: problem for problems in pool.starmap(_write, slices) for student, problem in problems.items()}


def _write(folders: AssignmentFolders, students: list[str], level: str) -> dict[str, str]:
    config = folders.settings()
    config.CoverHiddenTests.level = level
    cover = CoverHiddenTests(config=config)
    zone = read_policy(folders.folder)[0].zone
    with opened_gradebook(folders) as book:

        def page(path: Path, student: str) -> str:
            notebook = nbformat.read(path, 4)
            grades = add_grades(notebook, book.find_submission_notebook(path.stem, folders.assignment, student))
            notebook, _ = cover.preprocess(notebook, {})
            return page_html(notebook, {"notebook": path.stem, **grades}, str(path.parent), zone)

        problems = {student: _write_pages(folders, student, page) for student in students}
    return {student: f"there is no feedback page ({problem})" for student, problem in problems.items() if problem}


def _write_pages(folders: AssignmentFolders, student: str, page: Callable[[Path, str], str]) -> str | None:
    """Write a student's pages; return the reason if they could not be written, otherwise None."""
    try:
        with time_limit(PAGE_SECONDS):
            paths = sorted(folders.autograded(student).glob("*.ipynb"))
            pages = {f"{path.stem}.html": page(path, student) for path in paths}
            if not pages:
                return "there is no graded notebook"

            with replaced_folder(folders.feedback(student)) as folder:
                for name, html in pages.items():
                    write_file(folder / name, html.encode(), 0o644)  # the mode that nbgrader sets
    except TimeUp:
        return f"it took more than {PAGE_SECONDS:g} seconds"
    except OSError as error:
        return f"{error.strerror or type(error).__name__}: {printable(str(error.filename))}"[:LONGEST_REASON]
    except Exception as error:  # the pages of the others are still to be written
        return printable(f"{type(error).__name__}: {error}")[:LONGEST_REASON]
    return None


def version_of_page(path: Path) -> str:
    """Return the level of hidden tests and the hash of the manual grades with which a page was written; "" without a page."""
    try:
        with path.open("rb") as page:
            version = VERSION.search(page.read(HEAD_BYTES))
    except OSError:
        return ""
    return version[1].decode() if version else ""


def hidden_test_text(level: str, name: str | None, message: str) -> str:
    """Return the text about a test that failed, at a level of `HIDDEN_TEST_LEVELS`.

    `name` is that of the hidden part that failed, "" if it has none; None if a visible line may have failed.
    """
    text = translated("A hidden test did not pass.")
    if name is None:
        text = translated(
            "A line of this test or a hidden part did not pass. Run the test in your notebook to see which."
        )
    elif level != "none" and name:
        text = translated("A hidden test did not pass: {name}.", name=name)
    return f"{text}\n{message}" if level == "message" else text


class CoverHiddenTests(NbGraderPreprocessor):
    """Removes hidden tests from a graded notebook's cells, and from their outputs according to `level`."""

    level = Enum(
        HIDDEN_TEST_LEVELS, "name", help="What to show of a hidden test that failed: none, name or message."
    ).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook as a student may see it, with texts in the language of the notebook."""
        with use_language(language_of(nb.metadata)):
            localize_messages(nb)
            nb.metadata.setdefault("autograder", NotebookNode())["level"] = self.level
            return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Return the cell as a student may see it."""
        hidden = self._hidden_lines(cell)
        if not hidden:
            return cell, resources
        lines, cell.source = cell.source.split("\n"), _redacted(cell, hidden)
        if cell.cell_type != "code":
            return cell, resources
        about = cell.metadata.get("autograder", {})
        failed = about.get("line", 0) - 1
        # In process, and without the grader's metadata, an error may come from the hidden part, so it is replaced as well.
        is_known = about.get("kind") in ("declarative", "plain data") or not has_code(cell.source)
        name = hidden.get(failed, next(iter(hidden.values()))) if is_known else None
        visible = f"----> {failed + 1} {lines[failed]}" if 0 <= failed < len(lines) and failed not in hidden else ""
        cell.outputs = [
            self._replacement(output, name) if about.get("hidden", True) else _without_lines(output, visible)
            for output in cell.outputs
        ]
        return cell, resources

    def _hidden_lines(self, cell: NotebookNode) -> dict[int, str]:
        """Return the hidden lines of a cell in order, numbered from 0, each with the teacher's name for its part."""
        parts = cell.metadata.get("autograder", {}).get("hidden_parts", [])
        hidden = {line - 1: name for first, last, name in parts for line in range(first, last + 1)}
        # In a notebook graded by an earlier release or by nbgrader itself, only the marks show the hidden lines.
        marks, name = ClearHiddenTests(config=self.config), None
        for number, line in enumerate(cell.source.split("\n")):
            if marks.begin_test_delimeter in line:
                name = line.partition(marks.begin_test_delimeter)[2].strip(" #:")
            if name is not None:
                hidden.setdefault(number, name)
            if marks.end_test_delimeter in line:
                name = None
        return dict(sorted(hidden.items()))

    def _replacement(self, output: NotebookNode, name: str | None) -> NotebookNode:
        if output.output_type != "error":
            text = translated("(the output of a hidden test is not shown)") + "\n"
            return v4.new_output("stream", name="stdout", text=text)
        text = hidden_test_text(self.level, name, f"{output.ename}: {output.evalue}")
        return v4.new_output("error", ename="HiddenTest", evalue=text, traceback=[text])


def _without_lines(output: NotebookNode, failed: str) -> NotebookNode:
    """Return an error of the visible part with the line that failed, not with those around it, which may be hidden."""
    if output.output_type == "error":
        output.traceback = [*filter(None, [failed]), f"{output.ename}: {output.evalue}"]
    return output


def _redacted(cell: NotebookNode, hidden: dict[int, str]) -> str:
    """Return a cell's text without its hidden lines; in code, a comment replaces each hidden part."""
    lines = []
    for number, line in enumerate(cell.source.split("\n")):
        if number not in hidden:
            lines.append(line)
        elif cell.cell_type == "code" and hidden.get(number - 1) != hidden[number]:
            lines.append("# hidden tests" + (f": {hidden[number]}" if hidden[number] else ""))
    return "\n".join(lines)
