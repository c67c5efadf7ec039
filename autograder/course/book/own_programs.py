"""A teacher's own programs and saved recordings, as questions on a page next to the lessons."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from autograder.course.book.lesson_blocks import Block, Choice, ProseBlock, QuestionBlock
from autograder.errors import AutograderError, InputError, printable
from autograder.locale.stored_messages import StoredMessage, stored
from autograder.locale.translations import restored, translatable, translated
from autograder.run_in_fork import ProcessEndedError, ProcessTimeoutError, run_in_fork
from autograder.tape.recording.schema import Recording, from_json, to_json
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome
from autograder.view.notebook import drawn_mimebundle
from autograder.view.text.headline import meaning

SECONDS = 60.0  # the time limit for all runs of one program together, in seconds


def own_questions(files: Sequence[Path]) -> list[QuestionBlock]:
    """Return a question for each file.

    Raises:
        InputError: see `own_question`; or two files have the same name.
    """
    # File systems and servers may ignore case.
    twice = [name for name, times in Counter(_name(file).casefold() for file in files).items() if times > 1]
    if twice:
        raise InputError.of(
            "book.same_name|Two programs are called {name}, which is their address in the book. Rename one of them.",
            name=twice[0],
        )
    return [own_question(file) for file in files]


def own_page(questions: Sequence[QuestionBlock], title: str) -> list[Block]:
    """Return the blocks of the page with the questions, each under its name, in the current language."""
    blocks: list[Block] = [ProseBlock("programs", f"# {title}")]
    for question in questions:
        choices = _choices(question.recording.verdict.outcome)
        blocks += [ProseBlock(f"program-{question.id}", f"## {question.id}"), replace(question, choices=choices)]
    return blocks


def own_question(path: Path) -> QuestionBlock:
    """Return the question about the outcome of a Python file, a notebook, or a recording as `explain` saves it (`.json`).

    Raises:
        InputError: the file cannot be read, run or drawn, was recorded by a newer release, exceeds the time limit,
            ends Python itself, or does not contain a statement to run.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # reading a named pipe could block forever
        raise InputError.of("book.no_file|{file} is not a file. Name a program to add.", file=printable(str(path)))
    recording = _read(path) if path.suffix == ".json" else _record(path)
    if not recording.steps:
        raise InputError.of(
            "book.no_statement|{file} contains no statement to run. Name a program that has one.",
            file=printable(str(path)),
        )
    choices = _choices(recording.verdict.outcome)
    return QuestionBlock(_name(path), "outcome", recording.programs[0].source, choices, recording)


def _name(path: Path) -> str:
    """Return a program's address in the book."""
    return re.sub(r"\W+", "_", path.stem)


def _choices(outcome: Outcome) -> tuple[Choice, ...]:
    known = {"outcome": outcome, "meaning": meaning(outcome)}
    text = translatable("You predicted {predicted}. It was {outcome}: {meaning}.")
    verdicts = {answer: translated(text, predicted=answer, **known) for answer in OUTCOMES}
    verdicts[outcome] = translated("Correct: {meaning}, as you predicted.", **known)
    return tuple(Choice(answer, verdict, answer == outcome) for answer, verdict in verdicts.items())


def _read(path: Path) -> Recording:
    """Return a saved recording after drawing it once, because its parts may be inconsistent."""
    try:
        recording = from_json(path.read_bytes())
        drawn_mimebundle(recording)
        return recording
    except AutograderError as error:
        raise InputError.of(
            "book.not_shown|{file} cannot be shown. {problem}", file=printable(str(path)), problem=str(error)
        ) from None
    except OSError as error:
        raise InputError.of(
            "book.not_read|{file} cannot be read: {reason}. Name a program to add.",
            file=printable(str(path)),
            reason=error.strerror,
        ) from None
    except Exception as error:  # such a recording can break any rule that drawing relies on
        raise InputError.of(
            "book.damaged|{file} is damaged and cannot be drawn ({reason}). Record the program again.",
            file=printable(str(path)),
            reason=type(error).__name__,
        ) from None


def _record(path: Path) -> Recording:
    """Return the recording of a program, which runs in a separate process because it may not end, or may end Python itself."""
    shown = printable(str(path))
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "answer"
        try:
            code = run_in_fork(lambda: _run(path, written), SECONDS)
        except ProcessTimeoutError:
            raise InputError.of(
                "book.still_running|{shown} was still running after {seconds} seconds. Make its run shorter.",
                shown=shown,
                seconds=f"{SECONDS:g}",
            ) from None
        except ProcessEndedError as error:
            raise InputError.of(
                "book.ended_process|{shown} ended the Python process ({reason}). Remove that call to show the program in the book.",
                shown=shown,
                reason=str(error),
            ) from None
        answer = written.read_bytes()
    if code:
        message, texts = msgspec.json.decode(answer, type=tuple[str, tuple[StoredMessage, ...]])
        raise InputError(restored(message, texts))
    return from_json(answer)


def _run(path: Path, written: Path) -> int:
    """Write the recording and return 0, or write the error and return 1."""
    from autograder.tape import explain_program
    from autograder.tape.repair.trial.program_factory import factory_of_file

    try:
        written.write_text(to_json(explain_program(factory_of_file(path), repair=False)), "utf-8")
    except AutograderError as error:
        written.write_bytes(msgspec.json.encode((str(error)[:], stored(str(error)))))
        return 1
    return 0
