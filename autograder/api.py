"""What `autograder.explain` and the cell magic `%%explain` show: a recording, drawn as the front end can show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder import view
from autograder.tape import record, record_cell
from autograder.tape.recording.schema import Recording


class Explanation:
    """A recording that shows itself: a picture in a notebook, words elsewhere; `recording` is the data behind it."""

    def __init__(self, recording: Recording):
        self.recording = recording

    @property
    def outcome(self) -> str:
        """What happened, in one of the four words."""
        return self.recording.verdict.outcome

    def __repr__(self) -> str:
        return view.as_text(self.recording)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return view.mimebundle(self.recording)


def explain(program: str | Callable[..., object], **names: object) -> Explanation:
    """Returns what autograd held while `program` ran, where it breaks, and the gradients it gives beside the right ones.

    Args:
        program: source text, or a function; it runs several times and prints nothing.
        names: tensors and other values it starts from, as globals of the text or arguments of the function; each run gets copies.

    Raises:
        ProgramError: it could not be run; the message says why in one sentence.
    """
    return Explanation(record(program, names=names or None))


def load_magic(shell: Any) -> None:
    """Registers `%%explain`: the cell runs once, in the notebook's own names, and is explained below what it printed."""

    def explain_cell(_line: str, cell: str) -> None:
        recording, value = record_cell(shell.transform_cell(cell), shell.user_ns)
        if value is not None:
            shell.displayhook(value)
        view.show(recording)

    shell.register_magic_function(explain_cell, magic_kind="cell", magic_name="explain")
