"""What one run of a program did."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from autograder.errors import message_of
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.run.child_processes import Children
from autograder.tape.run.engine import Backward


@dataclass
class Run:
    """What one run did: its backwards, what it returned or raised, and where.

    Attributes:
        final: the gradient in each target's `.grad` at the end (by the target's number), copied: the buffer may be emptied later.
        compiled: whether functions made by `torch.compile` ran compiled.
        gave_up_compiling: whether they would have, had compiling not taken too long.
        is_cut: whether it was ended before the program was at its end; `calls` are those that were complete.
        took: the seconds it took.
        children: the processes that it started.
    """

    calls: list[Backward] = field(default_factory=list)
    returned: object = None
    error: BaseException | None = None
    in_backward: bool = False
    line: int | None = None
    file: str = ""
    final: dict[int, torch.Tensor | None] = field(default_factory=dict)
    compiled: bool = False
    gave_up_compiling: bool = False
    is_cut: bool = False
    took: float = 0.0
    children: Children = Children()

    @property
    def problem(self) -> Problem | None:
        """Returns the exception as plain data."""
        if self.error is None:
            return None
        return Problem(type(self.error).__name__, message_of(self.error), self.line, self.file)
