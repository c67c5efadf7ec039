"""Pages made from the sources: from an error message to a lesson, and the teachers' page, whose data are not released."""

import re
import shutil
import tomllib
import warnings

import nbformat
import pytest
import torch

from autograder.course import catalogue
from autograder.course.author_cells import AuthorError
from autograder.course.canonical import read
from autograder.course.learner.error_index import PAGE, TABLE, error_rows, find_error
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS, lessons
from autograder.course.teaching import page
from tests.commands import autograder
from tests.lessons.sources import exercises


def leaf():
    """Return a leaf that requires grad."""
    return torch.ones(2, requires_grad=True)


def saved_then_written():
    """A saved output is written into."""
    a = leaf().sigmoid()
    a.mul_(2).sum().backward()


def second_backward():
    """Backward runs twice over one graph."""
    loss = leaf().sigmoid().sum()
    loss.backward()
    loss.backward()


def detached_in_place():
    """A saved tensor loses its history."""
    m = leaf() * 2
    loss = (m * m).sum()
    m.detach_()
    loss.backward()


def flag_of_a_result():
    """The flag of a result is set."""
    (leaf() * 2).requires_grad_(False)


def grad_of_a_result():
    """The gradient of a result is read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (leaf() * 2).grad.sum()


# Each program, and the first lesson that its message leads to.
PROGRAMS = [
    (saved_then_written, "2, sections 1 to 4"),
    (lambda: leaf().add_(1), "1, sections 2 to 4"),
    (lambda: leaf()[:1].add_(1), "1, section 11"),
    (second_backward, "2, section 7"),
    (lambda: leaf().detach().sum().backward(), "3, sections 12 and 17"),
    (lambda: (leaf() * 2)[:1].detach_(), "3, section 18"),
    (detached_in_place, "3, section 17"),
    (lambda: (leaf() * 2).unbind()[0].mul_(2), "5, section 10"),
    (lambda: leaf().numpy(), "3, section 1"),
    (grad_of_a_result, "1, section 1"),
    (flag_of_a_result, "3, section 19"),
]


@pytest.mark.parametrize(("program", "lesson"), PROGRAMS)
def test_a_message_of_pytorch_leads_to_its_lesson(program, lesson, capsys):
    """The complete message that PyTorch raises now gives one row, that of its cause."""
    with pytest.raises((RuntimeError, UserWarning)) as raised:
        program()
    find_error(str(raised.value))
    told = capsys.readouterr().out
    assert 1 == told.count("first look: ")
    assert told.rpartition("lesson ")[2].startswith(lesson)


def test_every_message_in_the_table_was_raised():
    """No row quotes a message that no program here raises, but for the words of older releases and the row of silent faults."""
    messages = []
    for program, _ in PROGRAMS:
        with pytest.raises((RuntimeError, UserWarning)) as raised:
            program()
        messages.append(str(raised.value))
    unseen = [row.parts[0] for row in error_rows() if not any(row.parts[0] in message for message in messages)]
    assert ["nothing raises"] == unseen


@pytest.mark.parametrize(
    "old", ["leaf variable has been moved into the graph interior", "but the buffers have already been freed"]
)
def test_words_of_older_releases_stand_on_the_page(old):
    """A reader with an old answer from the web finds its words on the page."""
    assert old in re.sub(r"\*\*", "", "\n".join(cell.source for cell in read(PAGE).cells))


def test_each_lesson_and_section_exists():
    """Every link of the table names a notebook, and the sections that it names are there."""
    table = next(cell.source for cell in read(PAGE).cells if cell.source.startswith(TABLE))
    links = re.findall(r"\[(\d), (?:sections?|patients?) ([^\]]+)\]\(\.\./([^)]+)\)", table)
    assert len(links) >= len(error_rows())
    for number, sections, file in links:
        text = "\n".join(cell.source for cell in read(NOTEBOOKS / file).cells if cell.cell_type == "markdown")
        assert file.startswith(f"0{number}_")
        for section in re.findall(r"\d+", sections):
            assert re.search(rf"^## (Patient )?{section} · ", text, re.MULTILINE), (file, section)


def test_the_command_says_the_same():
    """`autograder errors` answers in a terminal, without PyTorch; other text gets one sentence."""
    done = autograder("errors", "a leaf Variable that requires grad is being used in an in-place operation.")
    assert 0 == done.returncode
    assert "lesson 1, sections 2 to 4" in done.stdout
    assert "No lesson is about this message" in autograder("errors", "segmentation fault").stdout


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


@pytest.mark.parametrize(("old", "new", "words"), [
    ("mistakes a second name for a copy", "mistakes a name", "no wrong answer 'mistakes a name' to fresh_state"),
    ("[06_clinic]", "[07_clinic]", "differ in the lesson 06_clinic"),
    ("ask = ", "asked = ", "cannot be read"),
])  # fmt: skip
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
