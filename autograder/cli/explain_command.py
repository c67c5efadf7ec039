"""The command `explain`: its options, and the separate process in which the program runs.

That process stores a preliminary answer for its parent, in case it is killed before the final one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.cli.run_command import positive, run_command
from autograder.errors import UnfinishedError
from autograder.locale.messages import Message
from autograder.locale.translations import translated
from autograder.requirements import loading
from autograder.run_in_fork import ProcessEndedError, ProcessTimeoutError, run_in_fork, text_of_end


class PartialAnswer:
    """A temporary file that both processes share; use it in a `with` block."""

    def __enter__(self) -> PartialAnswer:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def leave(self, code: int, late: str, ended: str = "") -> None:
        """Replace the stored answer with an exit code and the texts to print if the time is up, or if the process ended."""
        self._file.seek(0)
        self._file.truncate()
        json.dump([code, late, ended], self._file)
        self._file.flush()

    def found(self) -> tuple[int, str, str] | None:
        """Return the stored exit code and texts; None if they are missing or incomplete."""
        self._file.seek(0)
        try:
            code, late, ended = json.loads(self._file.read())
        except ValueError:
            return None
        return code, late, ended


if TYPE_CHECKING:
    from autograder.tape.recording.schema import Recording
    from autograder.tape.repair.trial.program_factory import ProgramFactory

MARGIN = 0.1  # fraction of the time that is reserved for writing the answer
SOON = 5.0  # seconds within which the final answer is expected; before that, the preliminary answer is not printed
LOGGED = 10.0  # seconds between progress messages if they go to a file
UNFINISHED = Message(
    "explain.unfinished|The time limit was reached before all changes were tried; --budget sets a longer one."
)
ENDED = Message("explain.ended_in_search|The search for fixes was not completed: a run of it ended the Python process.")


@dataclass
class ExplainRun:
    """One explanation on the command line.

    Attributes:
        chosen: the options.
        partial: stores the answer without fixes, in case this process is killed during the search.
        root: an empty folder for the copy of the working folder in which the program runs.
        began: the time when the command began, by `time.monotonic`.
        ready: the time when PyTorch was loaded.
        pending_answer: the preliminary answer, if it has not been printed yet.
    """

    chosen: argparse.Namespace
    partial: PartialAnswer
    root: str
    began: float = field(default_factory=time.monotonic)
    ready: float = 0.0
    pending_answer: str = ""

    def run(self) -> int:
        """Return the exit code: 0 for a correct program, 1 for any other."""
        with loading():
            from autograder import view
            from autograder.api import write_text
            from autograder.tape import explain_program
            from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError
            from autograder.tape.oracle.excerpt import Scope
            from autograder.tape.recording.schema import unknown_json
            from autograder.tape.repair.patch_file import apply_best_repair, best_fix
            from autograder.tape.run.budget import QUIET, Budget

        chosen, self.ready, self.stream = self.chosen, time.monotonic(), sys.stderr
        sys.unraisablehook = lambda _: None  # finalizers of the program's objects fail after its state was restored
        self.factory = _named_program(chosen, self.root)
        quiet = QUIET if self.stream.isatty() else LOGGED
        seconds = chosen.budget
        budget = Budget(seconds, self.tell, began=self.began, quiet=quiet, kept=MARGIN * seconds)
        shown = None if chosen.only_step is None else chosen.only_step - 1
        scope = Scope(shown=shown, check_gradients=chosen.check_gradients)
        try:
            with _discard_stdout():
                recording = explain_program(
                    self.factory,
                    repair=not chosen.no_repair,
                    budget=budget,
                    scope=scope,
                    first=self.first_answer,
                    compared=self.store_comparison,
                )
        except UnknownOutcomeError as error:
            if chosen.json:
                print(json.dumps(unknown_json(self.factory.file, str(error))))
            raise
        for target, draw in ((chosen.html, view.as_html), (chosen.svg, view.as_svg)):
            if target:
                write_text(target, draw(recording))
        if chosen.apply:
            message = apply_best_repair(self.factory, recording.verdict.fixes, unproven=chosen.unproven)
            print(message, file=sys.stderr)
        elif chosen.diff and not best_fix(recording.verdict.fixes, unproven=chosen.unproven):
            print(_why_no_patch(self.factory.file, bool(recording.verdict.fixes)), file=sys.stderr)
        print(self.answer(recording), end="")
        return _exit_code(recording)

    def answer(self, recording: Recording) -> str:
        """Return the printed text of a recording."""
        from autograder import view
        from autograder.tape import explain_json

        if self.chosen.json:
            return json.dumps(explain_json(recording, self.factory.file)) + "\n"
        if self.chosen.diff:
            from autograder.tape.repair.patch_file import as_patch, best_fix

            fix = best_fix(recording.verdict.fixes, unproven=self.chosen.unproven)
            return as_patch(fix) if fix else ""
        return view.as_text(recording) if self.chosen.steps else view.as_screen(recording)

    def store_comparison(self, recording: Recording) -> None:
        """Store the outcome of the compared gradients as the preliminary answer, before the recording."""
        self.partial.leave(_exit_code(recording), self.answer(recording))

    def first_answer(self, recording: Recording) -> None:
        """Store the outcome and the line as the preliminary answer, before the search for fixes."""
        from autograder.tape.run.budget import current_budget
        from autograder.view.text.first_screen import first_answer

        late, ended = (self.answer(_with_note(recording, note)) for note in (UNFINISHED, ENDED))
        self.partial.leave(_exit_code(recording), late, ended)
        self.pending_answer = translated("{answer}. Looking for fixes.", answer=first_answer(recording))
        if time.monotonic() - self.ready > SOON:
            self.tell("")
        else:  # a log has a message every 10 seconds only
            current_budget().due = self.ready + SOON

    def tell(self, progress: str) -> None:
        """Print the preliminary answer, if it was not printed yet, and the progress."""
        for text in filter(None, (self.pending_answer, progress)):
            print(f"autograder: {self.factory.file}: {text}", file=self.stream)
        self.pending_answer = ""


@contextmanager
def _discard_stdout() -> Iterator[None]:
    """Discard the standard output of processes that the program starts, so that only the answer is printed."""
    sys.stdout.flush()
    stdout, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(nowhere)


def _why_no_patch(file: str, has_changing: bool) -> str:
    why = translated("There is no fix to print.")
    if has_changing:
        why = translated("No fix keeps every loss and gradient; --unproven prints the one that changes least.")
    return f"autograder: {file}: {why}"


def _with_note(recording: Recording, note: Message) -> Recording:
    from msgspec.structs import replace

    verdict = recording.verdict
    return replace(recording, verdict=replace(verdict, notes=(*verdict.notes, note)))


def _exit_code(recording: Recording) -> int:
    return 0 if recording.verdict.outcome == "correct" else 1


def _named_program(chosen: argparse.Namespace, root: str) -> ProgramFactory:
    """Return the program that the options name."""
    from autograder.tape.repair.trial.program_factory import factory_of_file, factory_of_module, factory_of_text
    from autograder.tape.run.programs.command_line import CommandLine
    from autograder.tape.run.programs.scratch_folder import ScratchFolder

    path, _, part = (chosen.program or "").partition("::")
    # An audit hook cannot be removed; a fork of this process runs the program and ends.
    scratch = ScratchFolder(root, path or None, is_guarded=hasattr(os, "fork"))
    started = CommandLine(tuple(chosen.arguments), scratch=scratch)
    if chosen.module is not None:
        return factory_of_module(chosen.module, started)
    if chosen.code is not None:
        return factory_of_text(chosen.code, chosen.shown, started=started)
    return factory_of_file(path, part or None, started)


OWN_WORDS = "Write the program's own arguments after `--`: `autograder explain FILE -- ARGUMENTS`"


def add_to(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    explain = subparsers.add_parser(
        "explain",
        help=translated("explain an autograd error or a wrong gradient in a program, and suggest a fix"),
        epilog=translated("Arguments after `--` are passed to the program."),
        allow_abbrev=False,
    )
    program = explain.add_mutually_exclusive_group(required=True)
    program.add_argument(
        "program",
        nargs="?",
        metavar="FILE[::FUNCTION]",
        help=translated("a script, one function of it, a notebook (NOTEBOOK.ipynb[::CELL]), or - for standard input"),
    )
    program.add_argument(
        "-m", dest="module", metavar="MODULE", help=translated("module to run, as with `python -m MODULE`")
    )
    program.add_argument("-c", dest="code", metavar="CODE", help=translated("program to run, as a string"))
    explain.add_argument(
        "--steps", action="store_true", help=translated("print all findings, and describe every step in words")
    )
    explain.add_argument("--json", action="store_true", help=translated("one JSON object on standard output"))
    explain.add_argument("--no-repair", action="store_true", help=translated("do not search for fixes"))
    explain.add_argument(
        "--budget",
        type=positive(float),
        default=60.0,
        metavar="SECONDS",
        help=translated("time limit in seconds (default: 60)"),
    )
    explain.add_argument(
        "--check-gradients",
        action="store_true",
        help=translated("compare every gradient with finite differences of its loss"),
    )
    recorded = explain.add_mutually_exclusive_group()
    recorded.add_argument(
        "--only-step",
        type=positive(int),
        metavar="N",
        help=translated("record the Nth backward call; only compare the gradients of the others"),
    )
    recorded.add_argument(
        "--last-step", dest="only_step", action="store_const", const=0, help=translated("record the last backward call")
    )
    explain.add_argument("--diff", action="store_true", help=translated("print only a patch with the best fix"))
    explain.add_argument(
        "--apply", action="store_true", help=translated("apply the best fix; keep the original file as FILE.orig")
    )
    explain.add_argument(
        "--unproven",
        action="store_true",
        help=translated("with --diff or --apply: allow a fix that changes the computed values"),
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help=translated("write a page that needs no network"))
    explain.add_argument("--svg", type=Path, metavar="FILE", help=translated("write the picture of the decisive step"))
    explain.set_defaults(run=_explain)


def _explain(chosen: argparse.Namespace) -> int:
    if chosen.program == "-":
        chosen.program, chosen.code = None, sys.stdin.read()
        chosen.shown = "<stdin>"
    else:
        chosen.shown = chosen.program or chosen.module or "<string>"
    with PartialAnswer() as partial, tempfile.TemporaryDirectory(prefix="autograder-") as root:
        explanation = ExplainRun(chosen, partial, root)
        here = argparse.Namespace(**vars(chosen) | {"run": lambda _: explanation.run()})
        try:  # in a separate process, which is killed when the time is up
            return run_in_fork(lambda: run_command(here, "explain"), chosen.budget)
        except ProcessTimeoutError:
            preliminary = 1
            problem = UnfinishedError.of(
                "explain.still_running|{program}: it was still running after {seconds} seconds. Make the run shorter, or "
                "give it more time with --budget.",
                program=chosen.shown,
                seconds=f"{chosen.budget:g}",
            )
        except ProcessEndedError as error:  # a changed program may crash, or go on to a call of `os._exit`
            preliminary, problem = 2, UnfinishedError(text_of_end(chosen.shown, str(error)))
        stored = partial.found()
        if stored is None or not stored[preliminary]:
            raise problem
        print(stored[preliminary], end="")
        return stored[0]
