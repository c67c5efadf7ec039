"""IPython without a terminal or a kernel: runs a lesson's cells here, and gives back what they printed and displayed."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from autograder.check.subject.inputs import use_seed
from autograder.view.notebook import RECORDING_TYPE, ShownRecording

SEED = 0


class CellResult(msgspec.Struct, frozen=True):
    """What one cell did: its text, its displays as MIME type → text, the recordings that it showed, and its error."""

    printed: str
    displays: tuple[dict[str, str], ...]
    recordings: tuple[ShownRecording, ...]
    error: BaseException | None


class BookShell(InteractiveShell):
    """One for each process, since `get_ipython()` has to find it."""

    kernel = None  # libraries ask `hasattr(get_ipython(), "kernel")` to know whether displays are shown
    takes_recordings = True  # `autograder.view` sends recordings in place of pictures

    def enable_gui(self, gui: str | None = None) -> None:
        """Starts no event loop; `%matplotlib inline` asks for one."""

    def showtraceback(self, *_: Any, **__: Any) -> None:
        """Prints nothing: who runs the cell decides how its error is shown."""

    def run(self, text: str) -> CellResult:
        """Runs a cell. A check in it draws the same numbers each time, so that a book is the same each time."""
        with use_seed(SEED), capture_output() as captured:
            # IPython 9 finds the semicolon that hides a value in its history, of which this shell keeps none.
            result = self.run_cell(text, store_history=False, silent=text.rstrip().endswith(";"))
        shown = [output.data for output in captured.outputs]
        recordings = [
            msgspec.json.decode(data[RECORDING_TYPE], type=ShownRecording) for data in shown if RECORDING_TYPE in data
        ]
        return CellResult(
            printed=captured.stdout + captured.stderr,
            displays=tuple(_texts(data) for data in shown if RECORDING_TYPE not in data),
            recordings=tuple(recordings),
            error=result.error_before_exec or result.error_in_exec,
        )


def start_shell() -> BookShell:
    """Returns this process's shell, which keeps no history and draws matplotlib's figures as PNG."""
    shell = BookShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.run_line_magic("matplotlib", "inline")
    return shell


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return {
        kind: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
        for kind, value in data.items()
    }
