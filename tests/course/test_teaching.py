"""The teachers' page contains the data of the sources, and these data are not in the release."""

import shutil
import tomllib

import nbformat
import pytest

from autograder.course import catalogue
from autograder.course.author_cells import AuthorError
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS, lessons
from autograder.course.teaching import page
from tests.lessons.sources import exercises


@pytest.fixture
def sources(tmp_path):
    """A copy of solutions/ that a test may break."""
    return shutil.copytree(SOLUTIONS, tmp_path / "solutions")


def test_the_stored_page_is_what_the_sources_give():
    """`autograder release` was run after the last change of a lesson."""
    assert page() == (SOLUTIONS / "README.md").read_text("utf-8")


def test_the_page_tells_every_lesson_exercise_and_wrong_answer():
    """The page contains titles, aims, each wrong answer and the phrase of its check."""
    text = page()
    answers = [answer for path in lessons(SOLUTIONS) for found in exercises(path) for answer in found.of_kind("wrong")]
    words = [word for answer in answers for word in (answer.name, answer.phrase)]
    words += [word for lesson in catalogue.lessons() for word in (lesson.title, *(aim.can for aim in lesson.aims))]
    assert len(answers) > 100
    assert [] == [word for word in words if word not in text]


def test_a_changed_sources_page_differs(sources):
    """Another number of points in a notebook is another page, so the comparison above can fail."""
    notebook = sources / "02_mutating_a_saved_tensor" / "02_mutating_a_saved_tensor.ipynb"
    notebook.write_text(notebook.read_text("utf-8").replace('"points": 4', '"points": 9'), "utf-8")
    assert page() != page(sources)


def test_points_of_a_written_answer_are_not_those_of_predictions(sources):
    """With points for the written answer, the page states them apart from the rest."""
    path = sources / "02_mutating_a_saved_tensor" / "02_mutating_a_saved_tensor.ipynb"
    notebook = nbformat.read(path, 4)
    [cell] = [
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "in_your_own_words"
    ]
    cell.metadata.nbgrader.points = 2
    nbformat.write(notebook, path)
    assert "Worth 29 points: 18 for 7 exercises, 2 for 1 written answers, the rest for 9 predictions" in page(sources)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mistakes a second name for a copy", "mistakes a name", "no wrong answer 'mistakes a name' to fresh_state"),
        ("[06_clinic]", "[07_clinic]", "differ in the lesson 06_clinic"),
        ("ask = ", "asked = ", "cannot be read"),
    ],
)
def test_a_slip_in_the_text_is_told(sources, old, new, words):
    """A renamed wrong answer, a missing lesson and a misspelled key each get one sentence."""
    file = sources / "teaching.toml"
    text = file.read_text("utf-8").replace(old, new, 1)
    file.write_text(text.replace("06_clinic.", "07_clinic.") if "07" in new else text, "utf-8")
    with pytest.raises(AuthorError, match=words):
        page(sources)


def test_nothing_of_it_is_released_or_packaged():
    """The first lines of author cells and texts for teachers are not in notebooks/ or in the package; students do see the beliefs."""
    answers = [answer for path in lessons(SOLUTIONS) for found in exercises(path) for answer in found.answers]
    texts = tomllib.loads((SOLUTIONS / "teaching.toml").read_text("utf-8")).values()
    secrets = [f"# {answer.kind}: {answer.name}" for answer in answers]
    secrets += [text[key] for text in texts for key in ("timing", "ask", "shorten")]

    package = [file for file in (ROOT / "autograder").rglob("*") if file.suffix in {".py", ".toml", ".md", ".ipynb"}]
    text = "\n".join(file.read_text("utf-8") for file in [*NOTEBOOKS.rglob("*.ipynb"), *package])
    assert [] == [secret for secret in secrets if secret in text]
    assert {file.name for file in NOTEBOOKS.rglob("*") if file.is_file()} == {path.name for path in lessons(NOTEBOOKS)}
