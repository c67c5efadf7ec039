"""`autograder demo-class DIR`: a course with one lesson, and the submissions of 40 generated students in Canvas' format."""

from __future__ import annotations

import csv
import io
import random
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import nbformat

from autograder.course.author_cells import Answer, AuthorExercise, exercises
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.desk.returning.feedback_zip import zip_of
from autograder.errors import InputError
from autograder.printable import printable

LESSON = "02_mutating_a_saved_tensor"
TITLE = "Mutating a saved tensor (311)"
FIRST = ["Amara", "Bao", "Chiara", "Dmitri", "Elif", "Farid", "Gwen", "Hana", "Ivo", "Jana"]
LAST = [
    "Abara",
    "Brandt",
    "Costa",
    "Dlamini",
    "Eriksen",
    "Fujita",
    "García",
    "Haddad",
    "Ibsen",
    "Jansen",
    "Kowalski",
    "Lindqvist",
]
COUNT, ABSENT, LATE = 42, 2, (5, 17, 23)
OUTCOMES = ("raises-forward", "raises-backward", "correct", "silently-wrong")
NUMBERS = ("0.0", "1.0", "2.0", "4.0")
# Weights of an exercise's wrong answers, in the order of the author's cells: one belief is common, the others are rare.
SHARES = (8, 4, 2, 1, 1, 1, 1, 1)
UNNAMED = "    return None"  # an unanticipated wrong answer
POLICY = """\
# Due dates, extensions and late work; `autograder grade` reads this file at every run.
timezone = "Europe/Berlin"

[late]
grace_minutes = 15
percent_a_day = 10
most_percent = 50

[assignments.02_mutating_a_saved_tensor]
due = 2026-10-03T14:00:00
"""
CONFIG = """\
# nbgrader's settings for this course; nbgrader's commands, run from this folder, and `autograder grade` read them.
from autograder.course.nbgrader_release import configure
from autograder.grade.batch.csv_export import configure_export

c = get_config()
configure(c)  # `nbgrader generate_assignment` removes the cells with answers, and keeps the programs to repair
configure_export(c)  # `nbgrader export`: names with commas stay in their column
"""
README = """\
A course with the lesson {lesson} and the submissions of 40 made-up students.

    autograder collect download.zip {lesson} --course . --roster gradebook.csv
    autograder grade {lesson} --course .
    autograder report {lesson} --course . --out report.html
    autograder return {lesson} --course . --to canvas --worksheet gradebook.csv --out returned

download.zip   as from Canvas, “Download Submissions”
gradebook.csv  as from Canvas, “Export Entire Gradebook”
policy.toml    due date and late penalties
source/        the lesson with its answers
"""


class DemoError(InputError):
    """The class cannot be created in this folder."""


class DemoStudent(NamedTuple):
    """A generated student: a name, Canvas' number, and the probability of a right answer."""

    last: str
    first: str
    number: int
    skill: float

    @property
    def file_name(self) -> str:
        """The name that Canvas gives to this student's submission."""
        name = re.sub(r"\W", "", f"{self.last}{self.first}".lower())
        late = "_LATE" if self.number % 100 in LATE else ""
        return f"{name}{late}_{self.number}_{90_000 + self.number}_{LESSON}.ipynb"


def make_demo_class(folder: Path, seed: int = 0) -> None:
    """Write the course into a folder, which is created if it is missing.

    Raises:
        DemoError: the folder is not empty, or cannot be written.
    """
    shown = printable(str(folder))
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DemoError(f"{shown} is not an empty folder. Choose another name, such as {shown}-2")
    except OSError as error:
        raise DemoError(f"{shown} cannot be read ({error.strerror})") from None
    try:
        shutil.copytree(SOLUTIONS / LESSON, folder / "source" / LESSON)
        shutil.copy(SOLUTIONS / "teaching.toml", folder / "source")
        students = _students(random.Random(seed))
        (folder / "download.zip").write_bytes(zip_of(_hand_ins(students[ABSENT:], random.Random(seed))))
        (folder / "gradebook.csv").write_text(_gradebook(students), "utf-8")
        (folder / "policy.toml").write_text(POLICY, "utf-8")
        (folder / "nbgrader_config.py").write_text(CONFIG, "utf-8")
        (folder / "README.txt").write_text(README.format(lesson=LESSON), "utf-8")
    except OSError as error:
        for part in folder.glob("*"):  # undo everything, so that the user can repeat the command
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        # copytree raises a list of errors
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        raise DemoError(f"the class cannot be written to {shown} ({reason})") from None


def _students(chance: random.Random) -> list[DemoStudent]:
    names = [(last, first) for last in LAST for first in FIRST]
    chosen = sorted(chance.sample(names, COUNT))
    return [
        DemoStudent(last, first, 4001 + number, chance.betavariate(3, 2)) for number, (last, first) in enumerate(chosen)
    ]


def _hand_ins(students: list[DemoStudent], chance: random.Random) -> dict[str, bytes]:
    released = nbformat.read(NOTEBOOKS / LESSON / f"{LESSON}.ipynb", nbformat.NO_CONVERT)
    known = {exercise.id: exercise for exercise in exercises(SOLUTIONS / LESSON / f"{LESSON}.ipynb")}
    return {student.file_name: _hand_in(released, known, student, chance) for student in students}


def _hand_in(
    released: nbformat.NotebookNode, known: dict[str, AuthorExercise], student: DemoStudent, chance: random.Random
) -> bytes:
    notebook = nbformat.from_dict(released)
    sources = {}
    for cell in notebook.cells:
        name = str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if name.startswith("answer_"):
            sources[cell.id] = cell.source
            cell.source = _answer(cell.source, known.get(name.removeprefix("answer_")), student.skill, chance)
    data = nbformat.writes(notebook).encode()
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    return data


def _answer(stub: str, exercise: AuthorExercise | None, skill: float, chance: random.Random) -> str:
    """Return the answer of a student with this probability of a right one, in place of the stub."""
    if exercise is None or not exercise.answers:
        return _prediction(stub, chance)
    drawn = chance.random()
    if drawn < skill:
        return _code(chance.choice(exercise.of_kind("right", "answer")))
    if drawn > 0.97:
        return stub  # not attempted
    if drawn > 0.92:
        return f"{stub.splitlines()[0]}\n{UNNAMED}"
    wrong = exercise.of_kind("wrong")
    shares = SHARES[: len(wrong)] + (1,) * (len(wrong) - len(SHARES))
    return _code(chance.choices(wrong, shares)[0])


def _prediction(stub: str, chance: random.Random) -> str:
    """Return a guess at the behavior of a program: one of the words in the comment, one of the four outcomes, or some numbers."""
    code, _, comment = stub.partition("#")
    words = re.findall(r'"([\w-]+)"', comment) or OUTCOMES
    guessed = code.replace('"..."', f'"{chance.choice(words)}"')
    return re.sub(r"\.\.\.", lambda _: chance.choice(NUMBERS), guessed).rstrip()


def _code(answer: Answer) -> str:
    """Return an author's answer without its first line, which describes it."""
    return answer.source.partition("\n")[2]


def _gradebook(students: list[DemoStudent]) -> str:
    """Return the class's gradebook in Canvas' format (lib/gradebook_exporter.rb of instructure/canvas-lms)."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["Student", "ID", "SIS Login ID", "Section", TITLE, "Current Score", "Final Score"])
    table.writerow(["    Points Possible", "", "", "", f"{_points():.2f}", "(read only)", "(read only)"])
    for one in students:
        table.writerow([f"{one.last}, {one.first}", one.number, f"s{one.number}", "A", "", "", ""])
    return text.getvalue()


def _points() -> float:
    cells = nbformat.read(SOLUTIONS / LESSON / f"{LESSON}.ipynb", nbformat.NO_CONVERT).cells
    return sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in cells)
