"""`autograder demo-class DIR`: a course with one lesson, and the submissions of 40 generated students in Canvas' format."""

from __future__ import annotations

import csv
import io
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.classroom.collect.questions import COLUMNS, FILE
from autograder.classroom.worksheet import zip_of
from autograder.course.author_cells import Answer, AuthorExercise, exercises_of, questions_of
from autograder.course.canonical import read
from autograder.course.new_course import new_folder
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, write_files
from autograder.course.variants.declared_changes import rename_variables

LESSON = "02_mutating_a_saved_tensor"
TITLE = "Mutating a saved tensor (311)"
FIRST = ["Amara", "Bao", "Chiara", "Dmitri", "Elif", "Farid", "Gwen", "Hana", "Ivo", "Jana"]
LAST = ["Abara", "Brandt", "Costa", "Dlamini", "Eriksen", "Fujita", "García", "Haddad", "Ibsen", "Jansen", "Kowalski"]
COUNT, ABSENT = 42, 2
# Times of the late submissions, by number: within the grace period, on the second day, with an extension, on the first day.
LATE = {4005: "2026-10-03 14:10", 4017: "2026-10-05 09:00", 4023: "2026-10-05 18:00", 4036: "2026-10-03 20:30"}
WRITTEN, WRITTEN_POINTS = "in_your_own_words", 2
OUTCOMES = ("raises-forward", "raises-backward", "correct", "silently-wrong")
NUMBERS = ("0.0", "1.0", "2.0", "4.0")
WRITTEN_RIGHT = (
    "The tensor is what `exp` returned. Its derivative is its own result, so backward needs it. I look for the first write "
    "into this tensor or a view after `exp`.",
    "It is the output of `exp`, of shape [3], which backward uses for the gradient. Below the line with `exp`, I search for "
    "operations such as `a += 1`, `a[0] = 1` or `a.mul_(2)`.",
)
WRITTEN_WRONG = (
    "It is a variable of the model. Backward needs every tensor again. Anomaly mode shows the line that is wrong.",
    "It is the input of `exp`. In-place operations are not allowed with autograd.",
)
# One student copies the answers of another one, who writes this class, and renames the variables.
AUTHOR, COPIER, COPIED = 4012, 4031, "GatedBlock"
BLOCK = """\
class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        opened = self.gate(x).sigmoid()
        skipped = torch.div(opened, 2).mul(x)
        signal = self.value(x).tanh()
        return torch.addcmul(skipped, opened, signal)"""
RENAMED = {"a": "t", "s": "g", "before": "old", "opened": "g", "skipped": "rest", "signal": "v"}
POLICY = """\
# Due dates, extensions and late work; `autograder grade` reads this file at every run.
timezone = "Europe/Berlin"
missing = "zero"

[late]
grace_minutes = 15
percent_a_day = 10
most_percent = 50

[assignments.02_mutating_a_saved_tensor]
due = 2026-10-03T14:00:00
excused = ["s4002"]

[assignments.02_mutating_a_saved_tensor.extensions]
s4023 = "3 days"
"""
CONFIG = """\
# nbgrader's settings for this course; nbgrader's commands, run from this folder, and `autograder grade` read them.
from autograder.course.nbgrader_release import configure
from autograder.grade.batch.csv_export import configure_export

c = get_config()
configure(c)  # `nbgrader generate_assignment` removes the cells with answers, and keeps the programs to fix
configure_export(c)  # `nbgrader export`: names with commas stay in their column
"""
README = """\
A course with the lesson {lesson} and the submissions of 40 made-up students. In the activated environment, in this folder:

    autograder collect download.zip {lesson} --course . --roster gradebook.csv
    autograder grade {lesson} --course .
    autograder read {lesson} --course .
    autograder similar {lesson} --course . --out similar.html
    autograder report {lesson} --course . --out report.html
    autograder return {lesson} --course . --to canvas --worksheet gradebook.csv --out returned

download.zip   as from Canvas, “Download Submissions”; two students submitted nothing
gradebook.csv  as from Canvas, “Export Entire Gradebook”
policy.toml    due date, penalties for late submissions, an extension, an excused student
collected/     the times of the late submissions, which Canvas' zip does not contain, as a teacher enters them
source/        the lesson with its answers; here, the written answer gives {points} points
"""


@dataclass(frozen=True)
class DemoStudent:
    """A generated student: a name, Canvas' number, and the probability that an answer is right."""

    last: str
    first: str
    number: int
    ability: float

    @property
    def file_name(self) -> str:
        """The name that Canvas gives to this student's submission."""
        name = re.sub(r"\W", "", f"{self.last}{self.first}".lower())
        late = "_LATE" if self.number in LATE else ""
        return f"{name}{late}_{self.number}_{90_000 + self.number}_{LESSON}.ipynb"


def _answer(exercise: AuthorExercise, truth: str, ability: float, chance: random.Random) -> str:
    """Return a student's answer to an exercise, to a question with a right prediction, or to the written question."""
    is_right = chance.random() < ability
    if exercise.id == WRITTEN:
        return chance.choice(WRITTEN_RIGHT if is_right else WRITTEN_WRONG)
    if truth:
        return _prediction(exercise, truth, is_right, chance)
    if is_right:
        return _code(chance.choice(exercise.of_kind("right", "answer")))
    wrong = [_code(answer) for answer in exercise.of_kind("wrong")]
    unanticipated = f"{exercise.stub.splitlines()[0]}\n    return None"
    # Two misconceptions are common; the others, a new wrong answer and the unchanged stub are rare.
    return chance.choice([*wrong[:1] * 6, *wrong[:2] * 2, *wrong, unanticipated, exercise.stub])


def _prediction(exercise: AuthorExercise, truth: str, is_right: bool, chance: random.Random) -> str:
    """Return the answer's cell with the truth, or with another word of its comment, outcome or number."""
    code, _, comment = exercise.stub.partition("#")
    asked = next(questions_of(exercise.check))
    lines = [line.strip() for line in asked.program.splitlines()[1:]] if asked.asks == "culprit" else []
    choices = lines or re.findall(r'"([\w-]+)"', comment) or (OUTCOMES if truth in OUTCOMES else NUMBERS)
    guess = truth if is_right else chance.choice([choice for choice in choices if choice != truth])
    return code.replace("...", guess).rstrip()


def make_demo_class(folder: Path, seed: int = 0) -> None:
    """Write the course into a folder. Raise InputError if the folder is not empty, or cannot be written."""
    with new_folder(folder, "class"):
        source = folder / "source" / LESSON / f"{LESSON}.ipynb"
        shutil.copytree(SOLUTIONS / LESSON, source.parent)
        shutil.copy(SOLUTIONS / "teaching.toml", folder / "source")
        lesson = _with_points(source)
        nbformat.write(lesson, source)
        chance = random.Random(seed)
        students = _students(chance)
        submissions = _submissions(students[ABSENT:], lesson, chance)
        rows = [
            f"{student.number},,{student.first} {student.last},,,,{LATE[student.number]},"
            for student in students
            if student.number in LATE
        ]
        texts = {
            "gradebook.csv": _gradebook(students, lesson),
            f"collected/{LESSON}/{FILE}": "\n".join([",".join(COLUMNS), *rows, ""]),
            "policy.toml": POLICY,
            "nbgrader_config.py": CONFIG,
            "README.txt": README.format(lesson=LESSON, points=WRITTEN_POINTS),
        }
        write_files(
            folder, {name: text.encode() for name, text in texts.items()} | {"download.zip": zip_of(submissions)}
        )


def _students(chance: random.Random) -> list[DemoStudent]:
    chosen = sorted(chance.sample([(last, first) for last in LAST for first in FIRST], COUNT))
    return [DemoStudent(*name, 4001 + number, chance.uniform(0.2, 1)) for number, name in enumerate(chosen)]


def _with_points(path: Path) -> nbformat.NotebookNode:
    """Return the notebook, in which the written answer gives points."""
    notebook = read(path)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == WRITTEN:
            cell.metadata.nbgrader.points = WRITTEN_POINTS
    return notebook


def _truth(check: str) -> str:
    """Return the right prediction of a program: its outcome, the value that it returns, or the line that breaks backward."""
    from autograder.course.practice.question_cards import run_item  # here, because it loads PyTorch

    asked = next(questions_of(check))
    program = re.sub(r"^def \w+", "def program", asked.program, count=1)
    if asked.asks == "culprit":
        return run_item(program).verdict.harms[0].mutated_at[0].text
    if asked.asks != "predicted_value":
        return run_item(program).verdict.outcome
    names: dict[str, Any] = {}
    exec(f"import warnings\n\nimport torch\n\n\n{program}", names)
    return str(names["program"]())


def _submissions(students: list[DemoStudent], lesson: nbformat.NotebookNode, chance: random.Random) -> dict[str, bytes]:
    exercises = [*exercises_of(lesson), AuthorExercise(WRITTEN, "", "", ())]
    truths = {asked.id: _truth(asked.check) for asked in exercises if not asked.answers and asked.id != WRITTEN}
    answers = {
        student.number: {
            asked.id: _answer(asked, truths.get(asked.id, ""), student.ability, chance) for asked in exercises
        }
        for student in students
    }
    answers[AUTHOR][COPIED] = BLOCK
    copied = {name: rename_variables(text, RENAMED) for name, text in answers[AUTHOR].items()}
    answers[COPIER] = copied | {WRITTEN: answers[COPIER][WRITTEN]}
    released = NOTEBOOKS / LESSON / f"{LESSON}.ipynb"
    return {student.file_name: _submission(_with_points(released), answers[student.number]) for student in students}


def _submission(notebook: nbformat.NotebookNode, answers: dict[str, str]) -> bytes:
    for cell in notebook.cells:
        name = str(cell.metadata.get("nbgrader", {}).get("grade_id", "")).removeprefix("answer_")
        if cell.metadata.get("nbgrader", {}).get("solution") and name in answers:
            cell.source = answers[name]
    return nbformat.writes(notebook).encode()


def _code(answer: Answer) -> str:
    """Return an author's answer without its first line, which describes it."""
    return answer.source.partition("\n")[2]


def _gradebook(students: list[DemoStudent], lesson: nbformat.NotebookNode) -> str:
    """Return the class's gradebook in Canvas' format (lib/gradebook_exporter.rb of instructure/canvas-lms)."""
    points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in lesson.cells)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["Student", "ID", "SIS Login ID", "Section", TITLE, "Current Score", "Final Score"])
    table.writerow(["    Points Possible", "", "", "", f"{points:.2f}", "(read only)", "(read only)"])
    for student in students:
        table.writerow([f"{student.last}, {student.first}", student.number, f"s{student.number}", "A", "", "", ""])
    return text.getvalue()
