"""Writes the feedback folder of a class: a page for each graded notebook, and nothing else."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import Exporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import default
from traitlets.config import Config

from autograder.grade.batch.classroom import Classroom, opened_gradebook
from autograder.grade.batch.feedback.feedback_page import page_html
from autograder.grade.batch.feedback.hidden_tests import CoverHiddenTests
from autograder.grade.batch.student_submission import replace_folder, write_file
from autograder.grade.nbgrader_adapter import add_grades
from autograder.printable import printable
from autograder.tape.run.time_limit import TimeUp, time_limit

PAGE_SECONDS = 60.0  # for the pages of one student; those of a lesson take a fraction of a second
LONGEST_REASON = 300


class GetGradesAndWaiting(NbGraderPreprocessor):
    """For nbgrader's own command: the grades, and for each graded cell whether it still waits for a person."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook with scores and comments in the metadata of its cells."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            submitted = book.find_submission_notebook(about["notebook"], about["assignment"], about["student"])
            about.update(add_grades(nb, submitted))
        return nb, resources


class FeedbackExporter(Exporter):
    """For nbgrader's own command: exports a graded notebook as our page."""

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
    """Make `nbgrader generate_feedback` write such pages; for `nbgrader_config.py`.

    Args:
        config: is changed.
        level: what to show of a hidden test that failed: "none", "name" or "message".
    """
    config.GenerateFeedback.preprocessors = [GetGradesAndWaiting, CoverHiddenTests]
    config.GenerateFeedback.exporter_class = FeedbackExporter
    config.CoverHiddenTests.level = level


def write_feedback(classroom: Classroom, students: list[str], level: str, jobs: int) -> list[str]:
    """Write the pages of these students, `jobs` at once, and return a line for each that could not be written.

    Each line begins with the student's name and a colon.
    """
    if not students:
        return []
    count = min(jobs, len(students))
    slices = [(classroom, students[start::count], level) for start in range(count)]
    with multiprocessing.get_context("fork").Pool(count) as pool:
        return [line for lines in pool.starmap(_write, slices) for line in lines]


def _write(classroom: Classroom, students: list[str], level: str) -> list[str]:
    config = classroom.settings()
    config.CoverHiddenTests.level = level
    cover = CoverHiddenTests(config=config)
    with opened_gradebook(classroom) as book:
        problems = {student: _write_pages(classroom, student, book, cover) for student in students}
    return [f"{student}: there is no feedback page ({problem})" for student, problem in problems.items() if problem]


def _write_pages(classroom: Classroom, student: str, book: Gradebook, cover: CoverHiddenTests) -> str | None:
    """Write a student's pages; return why they could not be written, None if they were."""
    try:
        with time_limit(PAGE_SECONDS):
            paths = sorted(classroom.autograded(student).glob("*.ipynb"))
            pages = {f"{path.stem}.html": _page(path, classroom, student, book, cover) for path in paths}
            if not pages:
                return "there is no graded notebook"
            replace_folder(classroom.feedback(student), lambda folder: _write_files(folder, pages))
    except TimeUp:
        return f"it took more than {PAGE_SECONDS:g} seconds"
    except OSError as error:
        return f"{error.strerror or type(error).__name__}: {printable(str(error.filename))}"[:LONGEST_REASON]
    except Exception as error:  # noqa: BLE001 - the pages of the others are still to be written
        return printable(f"{type(error).__name__}: {error}")[:LONGEST_REASON]
    return None


def _page(path: Path, classroom: Classroom, student: str, book: Gradebook, cover: CoverHiddenTests) -> str:
    notebook = nbformat.read(path, 4)
    grades = add_grades(notebook, book.find_submission_notebook(path.stem, classroom.assignment, student))
    notebook, _ = cover.preprocess(notebook, {})
    return page_html(notebook, {"notebook": path.stem, **grades}, str(path.parent))


def _write_files(folder: Path, pages: dict[str, str]) -> None:
    for name, page in pages.items():
        write_file(folder / name, page.encode(), 0o644)  # as nbgrader leaves them
