"""Lines that a reader puts in order: every order that returns is run when the book is made, and checked by the lesson's own check."""

from __future__ import annotations

from autograder.book.record.book_shell import BookShell
from autograder.book.record.lesson_blocks import PlayTable, TriedArrangement
from autograder.course.author_cells import AuthorExercise
from autograder.course.learner.exercise_programs import commented_lines, program_of
from autograder.errors import AutograderError, UnfinishedError
from autograder.play.arrangement import answer_text, arrangements
from autograder.play.arrangement_run import run
from autograder.play.cards import Arrangement, PlayProgram

MOST = 300
"""Orders of one exercise, the shortest first: a table of them stays small enough to be sent."""

ENOUGH = 10_000
"""More orders than any exercise has."""

SECONDS = 20.0
"""How long one run may take; a busy machine must not change what a book holds."""


class NoRightOrderError(UnfinishedError):
    """None of the orders that the book would offer passes the exercise's check."""


def try_orders(shell: BookShell, exercise: str, check: str, stub: str) -> PlayTable | None:
    """Return the result of each order of an exercise's lines; None for an exercise that is not made of lines.

    Args:
        check: the text of the exercise's check cell, `stub` what is handed out.

    Raises:
        NoRightOrderError: no order passes; the lesson is to be repaired.
    """
    if not commented_lines(stub):
        return None
    program = program_of(AuthorExercise(exercise, stub, check, ()))
    offered = [one for one in arrangements(program, ENOUGH) if one.key != program.as_given.key]
    offered.sort(key=lambda one: len(one.lines))
    tried = [found for one in offered[:MOST] if (found := _try(shell, program, one, check))]
    shell.run(stub)
    if not any(one.passes for one in tried):
        raise NoRightOrderError(f"{exercise}: no order of at most {MOST} passes its check. Repair the lesson.")
    return PlayTable(program, tuple(tried))


def _try(shell: BookShell, program: PlayProgram, order: Arrangement, check: str) -> TriedArrangement | None:
    """Returns None where it cannot be run at all: then it is not offered."""
    try:
        judged = run(program, order, None, SECONDS)
    except AutograderError:
        return None
    if judged.outcome != "correct":
        return TriedArrangement(order.key, judged.sentence, judged.recording)
    shell.run(answer_text(program, order))
    error = shell.run(check).error
    said = "" if error is None else str(error).removeprefix(f"{program.name}: ")
    return TriedArrangement(order.key, judged.sentence, judged.recording, error is None, said)
