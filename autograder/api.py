"""The result of `autograder.explain`, the cell magic `%%explain` and the command `explain`: an `Explanation`."""

from __future__ import annotations

import linecache
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import torch

from autograder import view
from autograder.errors import AutograderError, InputError, UnfinishedError, message_of
from autograder.locale.messages import Message
from autograder.run_in_fork import reason_of_end, text_of_end
from autograder.tape import explain_cell, explain_program
from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError
from autograder.tape.oracle.excerpt import Scope
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording, SourceFile, to_json
from autograder.tape.recording.verdict_types import Fix, Gradient, Harm, Outcome, Problem, Verdict
from autograder.tape.repair.trial.program_factory import (
    ProgramFactory,
    factory_of_file,
    factory_of_function,
    factory_of_text,
)
from autograder.tape.run.programs.command_line import CommandLine
from autograder.tape.run.programs.scratch_folder import ScratchFolder
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.watch.call_listener import is_own
from autograder.tape.watch.watch_session import KEPT_HARMS
from autograder.view.text.first_screen import MORE_IN_PYTHON

_NO_REPAIR = Message(
    "watch.no_repair|A watch recorded this in a running job; it did not check whether the bytes changed. `autograder "
    "explain FILE` runs a program by itself and searches for fixes."
)


def recording_of_error(error: BaseException) -> Recording:
    """Return the recording of an exception that a backward raised under `autograder.watch()`.

    Raises:
        InputError: if no watch was open, or if no in-place modification caused the error.
    """
    harms: tuple[Harm, ...] | None = next(
        filter(None, (getattr(link, KEPT_HARMS, None) for link in _chain(error))), None
    )
    if harms is None:
        raise InputError.of(
            "watch.no_record|This {error} contains no record of in-place modifications: no watch was open when "
            "backward raised it. Put `with autograder.watch():` around forward and backward, and run it again.",
            error=type(error).__name__,
        )
    problem = Problem(type(error).__name__, message_of(error), _own_line(error))
    verdict = Verdict("raises-backward", problem, harms, notes=(_NO_REPAIR,))
    return Recording(
        schema.VERSION, str(torch.__version__), _files(harms), steps=(), tensors=(), storages=(), nodes=(), saved=(),
        backward=(), verdict=verdict,
    )  # fmt: skip


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception and the exceptions in its chain of causes and contexts."""
    errors: list[BaseException] = []
    while error is not None and error not in errors:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return errors


def _own_line(error: BaseException) -> int | None:
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if is_own(frame.f_code.co_filename)]
    return lines[-1] if lines else None


def _files(harms: tuple[Harm, ...]) -> tuple[SourceFile, ...]:
    """Return the files that the harms name, starting with the file of the first modification."""
    places = [place for harm in harms for place in (*harm.mutated_at, harm.saved_at) if place.file]
    names = dict.fromkeys(place.file for place in places) or {"<job>": None}
    return tuple(SourceFile(name, "".join(linecache.getlines(name))) for name in names)


_FORMATS: dict[str, Callable[[Recording], str]] = {".html": view.as_html, ".svg": view.as_svg, ".json": to_json}


class Explanation:
    """The explanation of a program's run, displayed as a picture in a notebook and as text elsewhere.

    Attributes:
        recording: the underlying data, which can be stored as JSON and drawn without PyTorch.
    """

    def __init__(self, recording: Recording):
        self.recording = recording

    @property
    def outcome(self) -> Outcome:
        """The outcome: "raises-forward", "raises-backward", "correct" or "silently-wrong"."""
        return self.recording.verdict.outcome

    @property
    def harms(self) -> tuple[Harm, ...]:
        """The saved tensors that were modified before backward used them, each with the lines that modified it."""
        return self.recording.verdict.harms

    @property
    def gradients(self) -> dict[str, Gradient]:
        """The gradient of each leaf by name, with the program's value (`got`) and the right one (`true`)."""
        return self.recording.verdict.gradients

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The source changes that were run and give the right gradients, the smallest change first."""
        return self.recording.verdict.fixes

    @property
    def notes(self) -> tuple[str, ...]:
        """Further remarks, such as the reason why there is no fix."""
        return self.recording.verdict.notes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page (`.html`) or picture (`.svg`) that does not use the network, or the recording (`.json`).

        Args:
            path: the file; its suffix determines the format.

        Raises:
            InputError: the suffix is not one of these.
            UnfinishedError: the file cannot be written.
        """
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise InputError.of(
                "save.unknown_suffix|{file} does not have a known suffix. Use one of {known}.",
                file=os.fspath(path),
                known=known,
            )
        write_text(path, _FORMATS[suffix](self.recording))

    @property
    def steps(self) -> str:
        """The long form: the whole verdict, and every step of the program as text."""
        return view.as_text(self.recording)

    def __repr__(self) -> str:
        return view.as_screen(self.recording, MORE_IN_PYTHON)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return view.mimebundle(self.recording)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file as UTF-8.

    Raises:
        UnfinishedError: the file cannot be written; the message gives the reason.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UnfinishedError.of(
            "save.not_written|{file} cannot be written: {reason}. Name another file.",
            file=os.fspath(path),
            reason=error.strerror,
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
        program: a function, source text, or the path of a Python file or notebook (a `pathlib.Path`). It runs several
            times, each time with the same seed, and its output is not shown; a file runs in a new process, in a copy of
            the project (its folder and the working folder). If it is an exception that a backward raised under `autograder.watch()`,
            nothing is run, and the harms are those that the watch detected.
        function: the function of the text or file to run, as in `FILE::FUNCTION`; for a notebook, the last cell to run.
        repair: whether to search for source changes that fix the program, and run each; this takes up to 20 seconds. A
            function is fixed in the file or cell that defines it; if its source is not available, `notes` contains the
            reason.
        check_gradients: whether to compare every gradient with finite differences of its loss, in double precision:
            leaf by leaf along a random direction, and entry by entry if a gradient is wrong and small.
        names: tensors and other values for the program, as globals of a text or arguments of a function; each run gets
            copies.

    Raises:
        ProgramError: the program could not be run, or is the name of a file as a text; the message gives the reason in
            one sentence.
        InputError: `program` is an exception that was not raised under a watch.
    """
    if isinstance(program, BaseException):
        return Explanation(recording_of_error(program))

    scope = Scope(check_gradients=check_gradients)

    def explained(factory: ProgramFactory) -> Explanation:
        return Explanation(explain_program(factory, repair=repair, scope=scope))

    if isinstance(program, str):
        if program.endswith((".py", ".ipynb")) and "\n" not in program:
            raise ProgramError.of(
                "explain.file_name_given|{file!r} is the name of a file. Pass pathlib.Path({file!r}) to explain the "
                "file.",
                file=program,
            )
        return explained(factory_of_text(program, names=names, function=function))
    if not isinstance(program, os.PathLike):
        return explained(factory_of_function(program, names))
    return Explanation(_recording_of_file(os.fspath(program), function, repair, scope))


_CHILD = """
import pickle, sys
sys.path, *given = pickle.load(sys.stdin.buffer)
from autograder import api
api.store_answer(*given)
"""


def _recording_of_file(path: str, function: str | None, repair: bool, scope: Scope) -> Recording:
    """Return the recording of a file that runs in a new process, which guards the user's files by an audit hook.

    The hook cannot be removed. A fork would hang in its first parallel operation if this process has run one (libgomp).
    """
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        root, answer = os.path.join(folder, "copy"), os.path.join(folder, "answer")
        os.mkdir(root)
        given = pickle.dumps((sys.path, answer, root, path, function, repair, scope))
        nowhere = subprocess.DEVNULL
        done = subprocess.run([sys.executable, "-P", "-c", _CHILD], input=given, stdout=nowhere, stderr=nowhere)
        try:
            with open(answer, "rb") as file:
                result = pickle.load(file)
        except (OSError, EOFError):
            raise ProgramError(text_of_end(path, reason_of_end(done.returncode))) from None
    if isinstance(result, Exception):
        raise result
    return result


def store_answer(answer: str, root: str, path: str, function: str | None, repair: bool, scope: Scope) -> None:
    """Write the pickled recording of a file, or the error, to the file `answer`. The process has to end afterwards.

    `root` is an empty folder for the copy of the project.
    """
    scratch = ScratchFolder(root, path, is_guarded=True)
    result: Recording | Exception
    try:
        factory = factory_of_file(path, function, CommandLine(scratch=scratch))
        result = explain_program(factory, repair=repair, scope=scope)
    except Exception as error:
        if not isinstance(error, AutograderError):
            error.add_note(traceback.format_exc())
        result = error
    with open(answer, "wb") as file:
        pickle.dump(result, file)


def load_magic(shell: Any) -> None:
    """Register the magics `%%explain` and `%explain` in an IPython shell.

    `%%explain` runs the cell once, in the notebook's namespace, and shows the explanation below its output. `%explain`
    explains the last error of a cell that ran under `autograder.watch()`.
    """

    def explain_magic(line: str, cell: str) -> None:
        """Explain the cell: `%%explain [--no-repair] [NAME]`; the explanation is bound to NAME."""
        words = line.split()
        names = [word for word in words if word != "--no-repair"]
        if len(names) > 1 or not all(name.isidentifier() for name in names):
            raise InputError.of(
                "explain.magic_options|%%explain does not accept {line}. Write %%explain [--no-repair] [NAME].",
                line=line,
            )
        source = shell.transform_cell(cell)
        try:
            recording, value = explain_cell(source, shell.user_ns, repair="--no-repair" not in words)
        except UnknownOutcomeError as error:  # the cell has run, so continue with the next cells
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
            raise InputError.of(
                "explain.no_error_yet|No cell has raised an error yet. To explain a cell, write %%explain in its first "
                "line."
            )
        explanation = explain(error)
        shell.user_ns.update(dict.fromkeys(line.split()[:1], explanation))
        view.show(explanation.recording)

    shell.register_magic_function(explain_magic, magic_kind="cell", magic_name="explain")
    shell.register_magic_function(explain_last, magic_kind="line", magic_name="explain")
