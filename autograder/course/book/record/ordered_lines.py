"""Exercises in which a reader orders lines: every order that returns is run and checked when the book is built."""

from __future__ import annotations

from autograder.check.playground.arrangement import answer_text, arrangements
from autograder.check.playground.arrangement_run import run
from autograder.check.playground.cards import Arrangement, PlayProgram
from autograder.course.author_cells import AuthorExercise
from autograder.course.book.record.book_shell import BookShell
from autograder.course.book.record.lesson_blocks import PlayTable, TriedArrangement
from autograder.course.learner.exercise_programs import commented_lines, program_of
from autograder.errors import AutograderError, UnfinishedError

MOST = 300
"""The maximum number of orders of one exercise, the shortest first, which limits the size of a table."""

ENOUGH = 10_000
"""A number larger than the number of orders of any exercise."""

SECONDS = 20.0
"""The time limit of one run, in seconds; it is long so that a busy machine does not change the book."""


class NoRightOrderError(UnfinishedError):
    """No order that the book would offer passes the exercise's check."""


def try_orders(shell: BookShell, exercise: str, check: str, stub: str) -> PlayTable | None:
    """Return the results of the orders of an exercise's lines; None for an exercise without such lines.

    Args:
        shell: the shell in which the lesson's cells have run.
        exercise: the exercise's id.
        check: the source of the exercise's check cell.
        stub: the stub, which contains the lines as comments.

    Raises:
        NoRightOrderError: no order passes, so the lesson has to be corrected.
    """
    if not commented_lines(stub):
        return None
    program = program_of(AuthorExercise(exercise, stub, check, ()))
    offered = [one for one in arrangements(program, ENOUGH) if one.key != program.as_given.key]
    offered.sort(key=lambda one: len(one.lines))
    tried = [found for one in offered[:MOST] if (found := _try(shell, program, one, check))]
    shell.run(stub)
    if not any(one.passes for one in tried):
        raise NoRightOrderError(
            f"{exercise}: its check failed for every order of its lines that was tried (at most {MOST}). Correct the lesson."
        )
    return PlayTable(program, tuple(tried))


def _try(shell: BookShell, program: PlayProgram, order: Arrangement, check: str) -> TriedArrangement | None:
    """Return the result of an order; None if it cannot be run, in which case it is not offered."""
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
