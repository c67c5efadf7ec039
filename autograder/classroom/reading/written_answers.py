"""Answers to questions that are graded by hand, with their points and comments from the gradebook."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator

import msgspec
from nbgrader.api import Comment, Grade
from nbgrader.utils import is_grade, is_solution, is_task

from autograder.classroom.class_grades import cell_rows
from autograder.classroom.policy_names import checked_policy
from autograder.classroom.report.grading_records import GradedNotebook, graded_notebook
from autograder.course.canonical import read
from autograder.grade.batch.classroom import Classroom, opened_gradebook

CODE = 8  # letters of an answer's code; with 15,000 answers, two codes collide once in 40 courses


class WrittenQuestion(msgspec.Struct, frozen=True):
    """A manually graded cell: the notebook's name, nbgrader's id of the cell, and its points."""

    notebook: str
    cell: str
    max_points: float


class WrittenAnswer(msgspec.Struct, frozen=True):
    """The answer of one student.

    Attributes:
        code: a pseudonym for the student and the question.
        student: nbgrader's id.
        question: the question.
        text: the answer as it was graded.
        points: the points from manual grading; None if not graded yet.
        comment: the grader's comment.
    """

    code: str
    student: str
    question: WrittenQuestion
    text: str
    points: float | None
    comment: str


def questions(classroom: Classroom) -> list[WrittenQuestion]:
    """Return the manually graded cells of an assignment's sources, in order."""
    return [
        WrittenQuestion(path.stem, cell.metadata.nbgrader.grade_id, float(cell.metadata.nbgrader.get("points") or 0))
        for path in sorted((classroom.sources / classroom.assignment).glob("*.ipynb"))
        for cell in read(path).cells
        if is_task(cell) or (is_grade(cell) and is_solution(cell))
    ]


def written_answers(classroom: Classroom, salt: str) -> list[WrittenAnswer]:
    """Return all answers of the present students that are or will be graded by hand, in the order of their codes.

    Args:
        classroom: the course and assignment.
        salt: the salt of the codes; without it, a code cannot be attributed to a student.
    """
    asked = {(one.notebook, one.cell): one for one in questions(classroom)}
    notebooks: dict[tuple[str, str], GradedNotebook] = {}
    found, left = [], checked_policy(classroom).left
    with opened_gradebook(classroom) as book:
        comments = {
            tuple(place): comment for *place, comment in cell_rows(book, classroom, Comment, Comment.manual_comment)
        }
        by_hand = Grade.needs_manual_grade | Grade.manual_score.is_not(None)
        for student, notebook, cell, points in cell_rows(book, classroom, Grade, Grade.manual_score).filter(by_hand):
            if (question := asked.get((notebook, cell))) is None or student in left:
                continue
            if (student, notebook) not in notebooks:
                notebooks[student, notebook] = graded_notebook(classroom, student, notebook)
            text = notebooks[student, notebook].answer((cell,))
            code = hashlib.sha256(f"{salt} {student} {notebook} {cell}".encode()).hexdigest()[:CODE]
            comment = comments.get((student, notebook, cell)) or ""
            found.append(WrittenAnswer(code, student, question, text, points, comment))
    order = {question: number for number, question in enumerate(asked.values())}
    return sorted(found, key=lambda one: (order[one.question], one.code))


@contextlib.contextmanager
def opened_answers(classroom: Classroom) -> Iterator[Callable[[WrittenAnswer, float | None, str], None]]:
    """Yield a function that gives an answer points and a comment; all changes are committed at the end, or none are."""
    with opened_gradebook(classroom) as book:

        def give(answer: WrittenAnswer, points: float | None, comment: str) -> None:
            place = (answer.question.cell, answer.question.notebook, classroom.assignment, answer.student)
            grade = book.find_grade(*place)
            grade.manual_score, grade.needs_manual_grade = points, points is None
            book.find_comment(*place).manual_comment = comment or None

        yield give
        book.db.commit()
