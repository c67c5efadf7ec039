"""Errors that are unrelated to autograd: a missing file, an unknown name, shapes that do not match."""

from __future__ import annotations

import builtins
import linecache
import os
import re

from msgspec import structs

from autograder.tape.diagnose.assembly import freeze
from autograder.tape.observe.observer import Observer
from autograder.tape.recording.schema import Recording, SourceFile
from autograder.tape.recording.verdict_types import Outcome, Problem, Verdict
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.finished_run import Run
from autograder.tape.run.programs.program import Program

# Built-in exceptions that PyTorch raises for violations of autograd's rules; it uses no others for that (2.6 to 2.15).
_TYPES = ("RuntimeError", "ValueError", "TypeError", "AttributeError", "NotImplementedError")
# The messages differ between releases; each message on a rule of autograd contains one of these words.
_WORDS = re.compile(
    r"in-?place|backward|autograd|\bgrad|requires?_grad|require gradients?|\bleaf\b|leaves|differentia|inference"
    r"|checkpoint|saved tensor|written-to|\bgraph\b|inputs? to the function|Couldn't swap",
    re.IGNORECASE,
)


def is_foreign(problem: Problem, in_backward: bool, source: str) -> bool:
    """Return whether an exception has nothing to do with autograd.

    Args:
        problem: the exception.
        in_backward: whether it was raised in a backward call.
        source: the source of the file that raised it.
    """
    is_builtin = isinstance(getattr(builtins, problem.type, None), type)
    if is_builtin and problem.type not in _TYPES:
        return True
    lines = source.splitlines()
    line = lines[problem.line - 1].strip() if problem.line and problem.line <= len(lines) else ""
    if line.startswith("raise ") and " from " not in line:
        return True
    if "NoneType" in problem.message:
        return not _reads_gradient(line, lines)
    return not (in_backward or _WORDS.search(problem.message))


def _reads_gradient(line: str, lines: list[str]) -> bool:
    """Return whether a line uses a gradient, directly or through a name that another line binds to one."""
    names = set(re.findall(r"\b[A-Za-z_]\w*\b", line))
    binding = (other for other in lines if "grad" in other and re.search(r"=|\bfor\b", other))
    return "grad" in line or any(names & set(re.findall(r"\b[A-Za-z_]\w*\b", other)) for other in binding)


def is_foreign_error(recording: Recording) -> bool:
    """Return whether the program ended with an error that has nothing to do with autograd."""
    verdict = recording.verdict
    if verdict.error is None or not recording.programs:
        return False
    sources = {program.file: program.source for program in recording.programs}
    source = sources.get(verdict.error.file or recording.programs[0].file, "")
    return is_foreign(verdict.error, verdict.outcome == "raises-backward", source)


def recording_of_error(program: Program, plain: Run) -> Recording | None:
    """Return the recording of a run that such an error ended before any backward call was complete, or None for any other run."""
    problem = plain.problem
    if problem is None or any(call.error is None for call in plain.calls):
        return None
    is_own = problem.file in ("", program.file)
    path = os.path.join(program.folder, problem.file)
    source = program.source if is_own else "".join(linecache.getlines(path))
    if not is_foreign(problem, plain.in_backward, source):
        return None
    outcome: Outcome = "raises-backward" if plain.in_backward else "raises-forward"
    verdict = Verdict(outcome, problem, runs=budget_in_force().runs)
    recording = freeze(program, Observer(program).state, (), (), verdict)
    if is_own:
        return recording
    return structs.replace(recording, programs=(*recording.programs, SourceFile(problem.file, source)))
