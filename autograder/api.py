"""What `autograder.explain`, the cell magic `%%explain` and the command `explain` give: an `Explanation`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from autograder import view
from autograder.errors import InputError, UnfinishedError
from autograder.locale.translations import in_english
from autograder.tape import explain_cell, explain_program
from autograder.tape.diagnose.excerpt import Scope
from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError
from autograder.tape.recording.schema import Recording, to_json
from autograder.tape.recording.verdict_types import Fix, Gradient, Harm, Outcome
from autograder.tape.repair.trial.program_factory import (
    ProgramFactory,
    factory_of_file,
    factory_of_function,
    factory_of_text,
)
from autograder.tape.run.programs.command_line import CommandLine
from autograder.tape.run.programs.scratch_folder import ScratchFolder
from autograder.tape.watch.error_recording import recording_of_error
from autograder.view.text.first_screen import MORE_IN_PYTHON

_FORMATS: dict[str, Callable[[Recording], str]] = {".html": view.as_html, ".svg": view.as_svg, ".json": to_json}


class Explanation:
    """What autograd held while a program ran; shows itself as a picture in a notebook, and as text elsewhere.

    Attributes:
        recording: the data behind it, which can be kept as JSON and drawn without PyTorch.
    """

    def __init__(self, recording: Recording):
        self.recording = recording

    @property
    def outcome(self) -> Outcome:
        """What happened: "raises-forward", "raises-backward", "correct" or "silently-wrong"."""
        return self.recording.verdict.outcome

    @property
    def harms(self) -> tuple[Harm, ...]:
        """The tensors that backward needed and that were overwritten, each with the lines that did it."""
        return self.recording.verdict.harms

    @property
    def gradients(self) -> dict[str, Gradient]:
        """Each leaf's gradient by name, as the program got it (`got`) and as it should be (`true`)."""
        return self.recording.verdict.gradients

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The changes of the source that were run and give the right gradients, the smallest change first."""
        return self.recording.verdict.fixes

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be known, such as why no fix was found."""
        return self.recording.verdict.notes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a page (`.html`) or picture (`.svg`) that needs no network, or the recording (`.json`).

        Raises:
            InputError: the suffix is none of these.
            UnfinishedError: the file cannot be written.
        """
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise InputError(
                in_english(
                    "{file} names no format that is known here. End it in one of {known}.",
                    file=os.fspath(path),
                    known=known,
                )
            )
        write_text(path, _FORMATS[suffix](self.recording))

    @property
    def steps(self) -> str:
        """The long form: everything that was found, and every step of the program in words."""
        return view.as_text(self.recording)

    def __repr__(self) -> str:
        return view.as_screen(self.recording, MORE_IN_PYTHON)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return view.mimebundle(self.recording)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file as UTF-8.

    Raises:
        UnfinishedError: it cannot be written; the message says why.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UnfinishedError(
            in_english(
                "{file} cannot be written: {reason}. Name another file.", file=os.fspath(path), reason=error.strerror
            )
        ) from None


def explain(
    program: str | os.PathLike[str] | Callable[..., Any] | BaseException,
    *,
    function: str | None = None,
    repair: bool = True,
    check_gradients: bool = False,
    **names: object,
) -> Explanation:
    """Return the tensors that autograd saved while `program` ran, the line that breaks it, the right gradients, and fixes.

    Args:
        program: a function, source text, or the path of a Python file or notebook (a `pathlib.Path`). It runs several times, each
            time from the same seed, and prints nothing; a file runs in a copy of the working folder. Or an exception that left a
            backward under `autograder.watch()`: then nothing is run, and the harms are those that the watch saw.
        function: which function of the text or file to run, as in `FILE::FUNCTION`; of a notebook, the last cell to run.
        repair: look for changes of the source that repair it, and try each; this takes up to 20 seconds. A function's repairs are
            changes of the file or cell that defines it; `notes` says where its text cannot be had.
        check_gradients: compare every gradient with finite differences of its loss, in double precision: leaf by leaf along a random
            direction, and entry by entry where one is wrong and small.
        names: tensors and other values it starts from, as globals of a text or arguments of a function; each run gets copies.

    Raises:
        ProgramError: it could not be run; the message says why in one sentence.
        InputError: it is an exception that no watch saw.
    """
    if isinstance(program, BaseException):
        return Explanation(recording_of_error(program))

    def explained(factory: ProgramFactory) -> Explanation:
        return Explanation(explain_program(factory, repair=repair, scope=Scope(check_gradients=check_gradients)))

    if isinstance(program, str):
        return explained(factory_of_text(program, names=names, function=function))
    if not isinstance(program, os.PathLike):
        return explained(factory_of_function(program, names))
    with tempfile.TemporaryDirectory(prefix="autograder-") as root:
        return explained(factory_of_file(program, function, CommandLine(scratch=ScratchFolder(root))))


def load_magic(shell: Any) -> None:
    """Registers `%%explain`: the cell runs once, in the notebook's own names, and is explained below what it printed.

    And `%explain`, which explains the last error of a cell that ran under `autograder.watch()`.
    """

    def explain_magic(line: str, cell: str) -> None:
        """Explain the cell: `%%explain [--no-repair] [NAME]`; the explanation is bound to NAME."""
        words = line.split()
        names = [word for word in words if word != "--no-repair"]
        if len(names) > 1 or not all(name.isidentifier() for name in names):
            raise InputError(
                in_english("%%explain {line} is not known here. Write %%explain [--no-repair] [NAME].", line=line)
            )
        source = shell.transform_cell(cell)
        try:
            recording, value = explain_cell(source, shell.user_ns, repair="--no-repair" not in words)
        except UnknownOutcomeError as error:  # the cell has run, and those below it go on
            print(error, file=sys.stderr)
            return
        shell.user_ns.update(dict.fromkeys(names, Explanation(recording)))
        if value is not None:
            shell.displayhook(value)
        view.show(recording)

    def explain_last(line: str) -> None:
        """Explain the last error: `%explain [NAME]`; the explanation is bound to NAME."""
        error = getattr(sys, "last_value", None)
        if error is None:
            raise InputError(
                in_english("No cell has ended in an error, so there is none to explain. %%explain explains a cell.")
            )
        explanation = explain(error)
        shell.user_ns.update(dict.fromkeys(line.split()[:1], explanation))
        view.show(explanation.recording)

    shell.register_magic_function(explain_magic, magic_kind="cell", magic_name="explain")
    shell.register_magic_function(explain_last, magic_kind="line", magic_name="explain")
