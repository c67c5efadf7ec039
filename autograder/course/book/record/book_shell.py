"""IPython without a terminal or a kernel, which runs a lesson's cells and returns their output."""

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
    """The output of one cell: its text, its displays as MIME type → text, the recordings that it showed, and its error."""

    printed: str
    displays: tuple[dict[str, str], ...]
    recordings: tuple[ShownRecording, ...]
    error: BaseException | None


class BookShell(InteractiveShell):
    """The shell of a process; there is at most one, which `get_ipython()` returns."""

    kernel = None  # libraries test `hasattr(get_ipython(), "kernel")` to find out whether displays are shown
    takes_recordings = True  # makes `autograder.view` send recordings in place of pictures

    def enable_gui(self, gui: str | None = None) -> None:
        """Start no event loop; `%matplotlib inline` requests one."""

    def showtraceback(self, *_: Any, **__: Any) -> None:
        """Print nothing, because the caller shows a cell's error."""

    def run(self, text: str) -> CellResult:
        """Run a cell. Checks draw the same numbers each time, so that the book is reproducible."""
        with use_seed(SEED), capture_output() as captured:
            # IPython 9 searches its history, which is disabled here, for the semicolon that hides a value.
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
    """Return this process's shell, without a history and with matplotlib's figures as PNG."""
    shell = BookShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.run_line_magic("matplotlib", "inline")
    return shell


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return {
        kind: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
        for kind, value in data.items()
    }
