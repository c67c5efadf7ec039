"""Runs cells as a kernel does (rich outputs, tracebacks, magics), and collects their outputs instead of sending them."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, NoReturn

from ipykernel.jsonutil import encode_images, json_clean
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type
from traitlets.config import Config

from autograder.grade.wire.limits import TIME_IS_UP
from autograder.grade.wire.outputs import Outputs
from autograder.tape.run.time_limit import time_limit

SPECIAL = re.compile(r"[%!?]|^\s*[,;/]", re.MULTILINE)
"""What each of IPython's own forms has, such as `%magic`, `!command`, `name?` and `/call` (IPython 9, inputtransformer2.py)."""
AWAITING = ("await", "async")  # `await x`, `async for`, `async with`, and comprehensions with these


class CellTimeoutError(BaseException):
    """A cell used up its time. It is no `Exception`, so that `except Exception` in a learner's loop does not swallow it."""


class CellRun(NamedTuple):
    """What one cell did.

    Attributes:
        outputs: in nbformat's form.
        error: the exception that ended it.
        value: of its last expression.
        execution_count: as a kernel counts.
    """

    outputs: list[dict[str, Any]]
    error: BaseException | None
    value: Any
    execution_count: int


class _Transformers(TransformerManager):
    """IPython's transformations of a cell. Only where one of its own forms may be, the cell is split into tokens for them."""

    def do_token_transforms(self, lines: list[str]) -> list[str]:
        """Returns the lines in Python."""
        return super().do_token_transforms(lines) if SPECIAL.search("".join(lines)) else lines


class _Hook(DisplayHook):
    """Turns the value of a cell's last expression into an execute_result."""

    shell: Any

    def write_output_prompt(self) -> None:
        """A kernel writes no prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        """Keeps the value's representations."""
        data = json_clean(encode_images(format_dict))
        self.shell.outputs.result(data, json_clean(md_dict or {}), self.prompt_count)

    def finish_displayhook(self) -> None:
        """A kernel writes no empty line after it."""


class _Publisher(DisplayPublisher):
    """Turns `display(...)` into a display_data."""

    shell: Any

    def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
        """Keeps the representations; a known display_id updates the output that has it."""
        identity = (options.get("transient") or {}).get("display_id")
        cleaned = json_clean(encode_images(data)), json_clean(metadata or {})
        self.shell.outputs.display(*cleaned, identity=identity, update=bool(options.get("update")))

    def clear_output(self, wait: bool = False) -> None:
        """Drops the cell's outputs, at once or when the next one comes."""
        self.shell.outputs.clear(wait)


class Shell(InteractiveShell):
    """IPython without a terminal, history file or threads; one for each process, as `get_ipython()` asks for."""

    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    outputs = AnyTrait()
    kernel = None  # libraries ask `hasattr(get_ipython(), "kernel")` to know whether displays are shown
    time_limit: Callable[[float], AbstractContextManager[None]]
    """Limits the seconds of one cell, or of one call."""
    takes_recordings = True  # `autograder.view` sends recordings instead of pictures; who stores the outputs draws them

    def run(self, text: str, seconds: float) -> CellRun:
        """Runs a cell and returns what it did. Code can swallow the interrupt after `seconds`, so this is not a defence."""
        with self._captured(), _no_input(), self.time_limit(seconds):
            result = self.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            # A cell may have replaced what shows errors. nbgrader (0.9.6, Execute) finds the error in the kernel's reply and adds it.
            self.outputs.error_if_none(type(error).__name__, str(error))
        return CellRun(self.outputs.take(), error, result.result, self.execution_count - 1)

    def should_run_async(
        self, raw_cell: str, *, transformed_cell: Any = None, preprocessing_exc_tuple: Any = None
    ) -> bool:
        """Returns whether a cell awaits something. IPython compiles it to find out; here only where one of the words is in it."""
        return any(word in (transformed_cell or "") for word in AWAITING) and super().should_run_async(
            raw_cell, transformed_cell=transformed_cell, preprocessing_exc_tuple=preprocessing_exc_tuple
        )

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Keeps no error in IPython's history (9.2 and later), which nobody reads: that would ask the error for its text again."""
        return {}

    def forget(self) -> None:
        """Resets the namespace to that of a new kernel. IPython's own reset collects garbage as well, which takes 0.2 s."""
        self.user_ns.clear()
        # Tests often stand below `if __name__ == "__main__":`; without the name, Python finds that of builtins.
        self.user_ns.update(vars(types.ModuleType("__main__")), __builtin__=builtins, __builtins__=builtins)
        self.init_user_ns()
        history: Any = self.history_manager
        history.reset(new_session=False)
        self.displayhook._, self.displayhook.__, self.displayhook.___ = "", "", ""
        self.execution_count = 1
        self.outputs.take()

    def enable_gui(self, gui: str | None = None) -> None:
        """Starts no event loop. IPython 9.18 raises NotImplementedError here, and `%matplotlib inline` calls it first."""

    @contextlib.contextmanager
    def separate_outputs(self, budget: int) -> Iterator[Outputs]:
        """A block whose outputs, up to `budget` bytes, are collected separately: those of a function that a check calls."""
        kept, self.outputs = self.outputs, Outputs(budget)
        try:
            with self._captured():
                yield self.outputs
        finally:
            self.outputs = kept

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.outputs.error(str(etype.__name__), str(evalue), [str(line) for line in stb])

    @contextlib.contextmanager
    def _captured(self) -> Iterator[None]:
        # What C code and child processes write does not go through sys.stdout; it is read from a file after the cell.
        with _below_python() as written, _python_streams(self.outputs):
            yield
        for name, text in written():
            self.outputs.stream(name, text)


def make_shell(output_bytes: int) -> Shell:
    """Returns the process's shell, which reads and writes none of IPython's start-up and history files."""
    config = Config()
    config.HistoryManager.enabled = False  # its SQLite file has a thread, and this process forks
    config.InteractiveShell.colors = "Neutral"  # as ipykernel 7 colours its tracebacks
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if "IPYTHONDIR" not in os.environ:
        os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="ipython-")
    shell = Shell.instance(config=config)
    shell.input_transformer_manager = _Transformers()
    shell.outputs = Outputs(output_bytes)
    shell.time_limit = cell_time_limit
    return shell


def cell_time_limit(seconds: float, clock: Callable[[], float] = time.monotonic) -> AbstractContextManager[None]:
    """Returns a block that raises CellTimeoutError after `seconds` of this clock; see `time_limit`."""
    return time_limit(seconds, lambda: _timed_out(seconds), clock=clock)


@contextlib.contextmanager
def limit_from_outside(seconds: float) -> Iterator[None]:
    """A block that raises CellTimeoutError when the grader says that the time is up.

    It alone knows how long this process and those that the cell started were kept waiting for a processor by others.
    """

    def stop(*_: object) -> NoReturn:
        raise _timed_out(seconds) from None  # else what shows this error would ask the exception before it for its text

    before = signal.signal(TIME_IS_UP, stop)
    try:
        yield
    finally:
        signal.signal(TIME_IS_UP, before)


def _timed_out(seconds: float) -> CellTimeoutError:
    return CellTimeoutError(f"stopped after {seconds:g} seconds")


class _Stream(io.TextIOBase):
    """sys.stdout or sys.stderr while a cell runs; `fileno` belongs to the file that collects what C code writes."""

    encoding = "utf-8"

    def __init__(self, outputs: Outputs, name: str) -> None:
        self._outputs, self.name, self._number = outputs, name, 1 if name == "stdout" else 2

    def writable(self) -> bool:
        """Text may be written."""
        return True

    def write(self, text: str) -> int:
        """Adds the text to the cell's outputs."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outputs.stream(self.name, text)
        return len(text)

    def fileno(self) -> int:
        """The file descriptor of the process's own stream."""
        return self._number


@contextlib.contextmanager
def _python_streams(outputs: Outputs) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Stream(outputs, "stdout"), _Stream(outputs, "stderr")  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def _below_python() -> Iterator[Any]:
    """Redirects file descriptors 1 and 2 to unnamed files; yields a function that returns what was written there."""
    with tempfile.TemporaryFile(buffering=0) as output, tempfile.TemporaryFile(buffering=0) as errors:
        kept = {"stdout": (1, os.dup(1), output), "stderr": (2, os.dup(2), errors)}
        for number, _, file in kept.values():
            os.dup2(file.fileno(), number)
        texts: list[tuple[str, str]] = []
        try:
            yield lambda: texts
        finally:
            for name, (number, original, file) in kept.items():
                os.dup2(original, number)
                text = os.pread(file.fileno(), 1_000_000, 0).decode("utf-8", "replace")
                texts += [(name, text)] if text else []
                os.close(original)


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    def refuse(*_: Any) -> NoReturn:
        # ipykernel's message (7.4) when there is no frontend to ask.
        raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")

    before, builtins.input = builtins.input, refuse
    try:
        yield
    finally:
        builtins.input = before
