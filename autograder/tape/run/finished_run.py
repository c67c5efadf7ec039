"""The result of a run, and the errors for runs that do not allow a statement about gradients: no end, no resource, an exit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch

from autograder.errors import message_of
from autograder.locale.messages import Message, message_with
from autograder.tape.internals.tensor_fields import has_values
from autograder.tape.recording.verdict_types import Place, Problem, line_of
from autograder.tape.run.child_processes import Children
from autograder.tape.run.engine import Backward
from autograder.tape.run.entropy import Captured
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.time_limit import TimeUp


class CompilingTookTooLong(ProgramError):
    """The time limit was reached while the compiler ran."""


def time_was_up() -> ProgramError:
    """Return the error of a run for which there was no time."""
    error = ProgramError.of("run.time_was_up|the time was up")
    error.__cause__ = TimeUp()
    return error


def is_out_of_time(error: BaseException | None) -> bool:
    """Return whether a run ended at its time limit without a complete backward call."""
    return isinstance(error, ProgramError) and isinstance(error.__cause__, TimeUp)


def raise_if_exited(run: Run, printed: Captured) -> None:
    """Raise a ProgramError if the program exited before a backward call was complete.

    An exit after one counts as the end of the program; with a status other than 0, the run records it. The last line of
    the error output, for example from argparse, is part of the message.
    """
    error, at, (output, errors) = run.error, run.at, printed
    if not isinstance(error, SystemExit):
        return
    if error.code in (None, 0):
        run.error = None
        if not (run.calls or run.children.called_backward or run.children.pythons):
            early = ProgramError.of(
                "exit.before_backward|{at}: the program ended by itself before any backward call, so nothing was checked.",
                at=at,
            )
            early.words = output.getvalue() + errors.getvalue()
            raise early
        return
    if any(call.ended and call.error is None for call in run.calls):
        run.exited, run.error = run.problem, None
        return
    said = errors.getvalue().strip().splitlines()[-1:]
    message = said[0].rstrip(".").replace(run.root, "") if said else ""
    advice = Message("exit.let_it_end|Let it reach its end")
    if "argument" in message:
        advice = Message("exit.pass_arguments|Pass its arguments after `--`")
    text = "exit.with_code|{at}: the program exited with {code}. {advice}."
    if said:
        text = "exit.with_message|{at}: the program exited with {code} and the message: {message}. {advice}."
    raise ProgramError.of(text, at=at, code=repr(error.code), message=message, advice=advice) from None


def raise_if_unusable(run: Run, given: str, in_compiler: bool, partial: bool) -> None:
    """Raise a ProgramError if the run does not allow a statement about gradients.

    `given` is its time limit in words. `in_compiler` means that the limit was reached while the compiler ran, and `partial`
    that a single backward call would have been sufficient.
    """
    error, at = run.error, run.at
    gradients = [gradient for call in run.calls for gradient in call.gradients if gradient is not None]
    if error is None and not all(map(has_values, gradients)):
        raise ProgramError.of(
            "run.no_values|{at}: the gradients have no values (device meta, or fake tensors), so they cannot be "
            "checked. Run the program on the CPU.",
            at=at,
        )
    text = message_of(error)
    if isinstance(error, TimeUp):
        reason = "run.still_running|{at}: the program was still running after {given}. Make the run shorter."
        if partial:
            given = Message("run.no_backward_call|{given}, and no backward call had finished", given=given)
    elif isinstance(error, KeyboardInterrupt):
        reason = "run.interrupted|{at}: the run was interrupted."
    elif isinstance(error, EOFError):
        reason = (
            "run.reads_input|{at}: the program reads input, which explain cannot provide. Set the value in the source."
        )
    elif isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text:
        reason = "run.memory|{at}: the program asks for more memory than this machine has. Make its tensors smaller."
    elif "Torch not compiled with" in text or "Found no NVIDIA driver" in text or "No CUDA GPUs" in text:
        reason = "run.device|{at}: the program needs a device that this machine does not have. Run it on the CPU."
    else:
        return
    message = message_with(reason, {"at": at, "given": given})
    failure = CompilingTookTooLong(message) if in_compiler else ProgramError(message)
    failure.__cause__ = error
    raise failure


@dataclass
class Run:
    """The result of a run: its backward calls, its return value or error, and the line of the error."""

    calls: list[Backward] = field(default_factory=list)
    returned: object = None
    error: BaseException | None = None
    in_backward: bool = False
    line: int | None = None
    file: str = ""
    exited: Problem | None = None  # its exit with a status other than 0, as the exception with that status
    program: str = ""  # the name of the program's file
    root: str = ""  # the path of the copy in which the program ran, which messages leave out
    # copy of each target's `.grad` at the end, by the target's number
    final: dict[int, torch.Tensor | None] = field(default_factory=dict)
    compiled: bool = False  # whether functions made by `torch.compile` ran compiled
    gave_up_compiling: bool = False  # whether they ran eagerly because compilation took too long
    is_truncated: bool = False  # whether the run ended before the program did; `calls` are the complete backward calls
    # whether calls were left out because they started from other parameters than those of the plain run
    has_diverged: bool = False
    took: float = 0.0  # duration in seconds
    children: Children = Children()  # the processes that it started
    # PyTorch's warnings about gradients, each with the line of the user's code
    warned: dict[str, Place] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """The line of the error in words, or the name of the program's file if the line is unknown."""
        return line_of(Place(self.file, self.line, ""), "") if self.line else self.program

    @property
    def problem(self) -> Problem | None:
        """The exception as plain data."""
        if self.error is None:
            return None
        message = re.sub(r"\x1b\[[\d;]*m", "", message_of(self.error))  # `torch.load` prints in bold
        message = message.replace(self.root, "") if self.root else message
        return Problem(type(self.error).__name__, message, self.line, self.file)
