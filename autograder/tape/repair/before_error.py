"""Explain a program that continues after a wrong gradient and ends with an unrelated error, up to that error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from autograder.errors import message_of
from autograder.locale.translations import in_english
from autograder.tape.diagnose.excerpt import Scope
from autograder.tape.diagnose.record import record_program
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.run.programs.program import Program

NOTE = in_english(
    "Before this error, a backward call gave a wrong gradient without an error; the explanation is about that gradient."
)


def recording_before_error(
    factory: ProgramFactory, recording: Recording, scope: Scope
) -> tuple[Recording, ProgramFactory] | None:
    """Return the recording of a program up to its error, and a factory whose changed programs also end there.

    Return None if the program did not end with an error outside backward, or if all gradients before the error are
    correct.
    """
    error = recording.verdict.error
    if error is None or recording.verdict.outcome != "raises-forward" or not recording.backward:
        return None
    until = _until(factory, error)
    seen = record_program(until.original, scope=scope)
    return (seen, until) if seen.verdict.outcome == "silently-wrong" and seen.verdict.harms else None


def with_its_error(recording: Recording, error: Problem) -> Recording:
    """Return the recording with the outcome and the error of the unmodified program, and a note."""
    verdict = recording.verdict
    notes = (NOTE, *verdict.notes)
    told = structs.replace(verdict, outcome="raises-forward", error=error, notes=notes)
    return structs.replace(recording, verdict=told)


def _until(factory: ProgramFactory, error: Problem) -> ProgramFactory:
    def cut(program: Program) -> Program:
        def call(backwards: Callable[[], int]) -> object:
            try:
                return program.call(backwards)
            except Exception as raised:
                if (type(raised).__name__, message_of(raised)) != (error.type, error.message):
                    raise
                return None

        return replace(program, call=call)

    return replace(factory, original=cut(factory.original), make=lambda text: cut(factory.make(text)))
