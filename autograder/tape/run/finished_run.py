"""The result of a run of a program."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from autograder.errors import message_of
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.run.child_processes import Children
from autograder.tape.run.engine import Backward


@dataclass
class Run:
    """The result of a run: its backward calls, its return value or error, and the line of the error.

    Attributes:
        root: the path of the copy in which the program ran, which messages leave out.
        final: copy of each target's `.grad` at the end, by the target's number.
        compiled: whether functions made by `torch.compile` ran compiled.
        gave_up_compiling: whether they ran eagerly because compilation took too long.
        is_cut: whether the run ended before the program did; `calls` are the complete backward calls.
        is_parted: whether calls were left out because they started from other parameters than those of the plain run.
        took: duration in seconds.
        children: the processes that it started.
        warned: PyTorch's warnings about gradients, each with the file and the line of the user's code.
    """

    calls: list[Backward] = field(default_factory=list)
    returned: object = None
    error: BaseException | None = None
    in_backward: bool = False
    line: int | None = None
    file: str = ""
    root: str = ""
    final: dict[int, torch.Tensor | None] = field(default_factory=dict)
    compiled: bool = False
    gave_up_compiling: bool = False
    is_cut: bool = False
    is_parted: bool = False
    took: float = 0.0
    children: Children = Children()
    warned: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def problem(self) -> Problem | None:
        """The exception as plain data."""
        if self.error is None:
            return None
        message = message_of(self.error)
        message = message.replace(self.root, "") if self.root else message
        return Problem(type(self.error).__name__, message, self.line, self.file)
