"""The lesson as a student uses it: opened in JupyterLab, run from top to bottom, saved."""

import time

import nbformat
import pytest

from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from tests.fixture_class.submissions import Lesson

NOTEBOOK = "02_mutating_a_saved_tensor/02_mutating_a_saved_tensor.ipynb"


def run_all_and_save(page, lab, name: str):
    """Open a notebook, run all of its cells as a person would, save it, and return the saved notebook."""
    lab.open(page, name)
    lab.run_all(page)
    last = len(nbformat.read(lab.root / name, as_version=4).cells)
    end = time.monotonic() + 240
    while time.monotonic() < end:
        page.keyboard.press("Control+s")
        page.wait_for_timeout(1000)
        try:
            saved = nbformat.read(lab.root / name, as_version=4)
        except nbformat.reader.NotJSONError:  # JupyterLab is writing the file
            continue
        code = [cell for cell in saved.cells if cell.cell_type == "code"]
        if code[-1].execution_count:
            assert last == len(saved.cells)
            return code
    raise AssertionError("the notebook did not run to its end within 240 s")


def errors(cells) -> dict[str, str]:
    """Return the error of each cell that shows one: its grade id, and the exception's name."""
    return {
        cell.metadata.get("nbgrader", {}).get("grade_id", cell.source[:30]): output.ename
        for cell in cells
        for output in cell.outputs
        if output.output_type == "error"
    }


@pytest.mark.parametrize("answers", ["answer", pytest.param("stub", marks=pytest.mark.slow)])
def test_a_lesson_runs_from_top_to_bottom(page, jupyterlab, answers):
    """With the model answers every check passes; as handed out each raises "not attempted", and no traceback shows the package's files."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    notebook = lesson.answered(lesson.right()) if answers == "answer" else lesson.released
    name = f"lesson_{answers}.ipynb"
    nbformat.write(notebook, jupyterlab.root / name)

    cells = run_all_and_save(page, jupyterlab, name)
    assert (dict.fromkeys(lesson.exercises, "NotAttempted") if answers == "stub" else {}) == errors(cells)
    shown = [line for cell in cells for output in cell.outputs for line in output.get("traceback", [])]
    assert not any("autograder/" in line or "Traceback" in line for line in shown)
    pictures = [output for cell in cells for output in cell.outputs if output.output_type == "display_data"]
    assert all("text/plain" in picture.data and len(picture.data) > 1 for picture in pictures)
    assert len(pictures) >= 3 if answers == "stub" else len(pictures) >= 8


@pytest.mark.slow
def test_validate_in_the_toolbar_says_success(page, jupyterlab):
    """The button that nbgrader adds runs the student's notebook and reports that all tests pass."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    nbformat.write(lesson.answered(lesson.right()), jupyterlab.root / "mine.ipynb")
    jupyterlab.open(page, "mine.ipynb")
    page.get_by_text("Validate", exact=True).click()
    page.get_by_text("Success! Your notebook passes all the tests.").wait_for(timeout=240_000)
