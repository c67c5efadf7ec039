"""The `similar` command: pairs of submissions that share rare code, side by side on one page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2

from autograder.classroom.hand_in_record import read_record
from autograder.classroom.report.grading_records import TestedCell, graded_notebook, tested_cells
from autograder.classroom.report.normal_form import without_comments
from autograder.classroom.similar.shared_parts import SimilarPair, similar_pairs, whole
from autograder.course.author_cells import AuthorError, exercises
from autograder.course.canonical import read
from autograder.errors import InputError
from autograder.grade.batch.classroom import Classroom, open_class
from autograder.locale.translated_templates import translated_templates
from autograder.printable import printable

TEMPLATES = Path(__file__).parent / "template"


class NothingToCompareError(InputError):
    """Fewer than two students have a graded notebook."""


class SimilarReport(NamedTuple):
    """The result of the comparison.

    Attributes:
        assignment: nbgrader's name of the assignment.
        students: the number of compared students.
        pairs: the pairs of similar submissions, the least likely first.
        answers: the code of each student in a pair.
        names: student → name, for students whose names `collect` has recorded.
        variants: student who submitted the variant of somebody else → the students who were given it.
    """

    assignment: str
    students: int
    pairs: list[SimilarPair]
    answers: dict[str, str]
    names: dict[str, str]
    variants: dict[str, list[str]] = {}


def similar_report(assignment: str, course: Path) -> SimilarReport:
    """Return the pairs of submissions that share rare code, compared as they were graded.

    Raises:
        ClassError: the assignment does not exist.
        NothingToCompareError: fewer than two students have a graded submission.
    """
    classroom = open_class(course, assignment, before_hand_in=True)
    cells = tested_cells(classroom)
    folders = classroom.steps["autograded"].glob(f"*/{assignment}")
    answers = {folder.parent.name: _answers(classroom, folder.parent.name, cells) for folder in sorted(folders)}
    if len(answers) < 2:
        raise NothingToCompareError(
            f"{assignment} has {len(answers)} graded submissions. Run `autograder grade {assignment}` first"
        )
    pairs = similar_pairs(answers, _handed_out(classroom))
    shown = {student: whole(answers[student]) for pair in pairs for student in pair.students}
    names = {student: one.name for student, one in read_record(classroom.folder, assignment).items()}
    return SimilarReport(assignment, len(answers), pairs, shown, names, classroom.other_variants())


def similar_html(report: SimilarReport) -> str:
    """Return the page, which does not use the network."""
    return _template().render(report=report, pairs=[_shown(pair, report) for pair in report.pairs])


def _answers(classroom: Classroom, student: str, cells: list[TestedCell]) -> list[str]:
    notebooks = {
        name: graded_notebook(classroom, student, name) for name in dict.fromkeys(cell.notebook for cell in cells)
    }
    return [without_comments(notebooks[cell.notebook].answer(cell.answers)) for cell in cells]


def _handed_out(classroom: Classroom) -> list[str]:
    """Return the code that everybody was given, and the answers in the source, which several students may write independently."""
    found: list[str] = []
    for path in sorted((classroom.sources / classroom.assignment).glob("*.ipynb")):
        found += [cell.source for cell in read(path).cells if cell.cell_type == "code"]
        try:
            found += [answer.source for one in exercises(path) for answer in one.answers]
        except AuthorError:
            continue  # a course without such cells may use the tags for another purpose
    return [without_comments(code) for code in found]


def _shown(pair: SimilarPair, report: SimilarReport) -> dict[str, object]:
    columns = [
        {
            "student": printable(student),
            "name": report.names.get(student, ""),
            "lines": [(line, number in lines) for number, line in enumerate(report.answers[student].splitlines())],
        }
        for student, lines in zip(pair.students, pair.lines, strict=True)
    ]
    return {"pair": pair, "columns": columns}


@cache
def _template() -> jinja2.Template:
    return translated_templates(TEMPLATES).get_template("similar.html.j2")
