"""Execution of cells as in a kernel (rich outputs, tracebacks, magics, modules), with the outputs collected instead of sent."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import signal
import sys
import sysconfig
import tempfile
import types
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ipykernel.jsonutil import encode_images, json_clean
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type
from traitlets.config import Config

from autograder.grade.wire.limits import TIMEOUT_SIGNAL
from autograder.grade.wire.outputs import Outputs
from autograder.requirements import PACKAGE
from autograder.tape.run.time_limit import time_limit

SPECIAL = re.compile(r"[%!?]|^\s*[,;/]", re.MULTILINE)
"""The characters of IPython's special forms, such as `%magic`, `!command`, `name?` and `/call` (IPython 9, inputtransformer2.py)."""
AWAITING = ("await", "async")  # `await x`, `async for`, `async with`, and comprehensions with these


class CellTimeoutError(BaseException):
    """A cell exceeded its time limit. It is not an `Exception`, so that `except Exception` in a student's loop does not catch it."""


@dataclass(frozen=True)
class CellRun:
    """The result of one cell."""

    outputs: list[dict[str, Any]]  # the outputs in nbformat's form
    error: BaseException | None
    value: Any  # the value of its last expression


class Transformers(TransformerManager):
    """IPython's transformations of a cell, which split it into tokens only if it may contain a special form."""

    def do_token_transforms(self, lines: list[str]) -> list[str]:
        """Return the lines in Python."""
        return super().do_token_transforms(lines) if SPECIAL.search("".join(lines)) else lines


class _Hook(DisplayHook):
    """Converts the value of a cell's last expression to an execute_result."""

    shell: Any

    def write_output_prompt(self) -> None:
        """Write nothing; a kernel does not write a prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        data = json_clean(encode_images(format_dict))
        self.shell.outputs.result(data, json_clean(md_dict or {}), self.prompt_count)

    def finish_displayhook(self) -> None:
        """Write nothing; a kernel does not write an empty line after the value."""


class _Publisher(DisplayPublisher):
    """Converts `display(...)` to a display_data."""

    shell: Any

    def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
        """Store the representations; a known display_id updates the output that has it."""
        identity = (options.get("transient") or {}).get("display_id")
        cleaned = json_clean(encode_images(data)), json_clean(metadata or {})
        self.shell.outputs.display(*cleaned, identity=identity, update=bool(options.get("update")))

    def clear_output(self, wait: bool = False) -> None:
        """Drop the cell's outputs, immediately or when the next one arrives."""
        self.shell.outputs.clear(wait)


class Shell(InteractiveShell):
    """IPython without a terminal, history file or threads; one for each process, because `get_ipython()` returns it."""

    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    outputs = AnyTrait()
    kernel = None  # libraries test `hasattr(get_ipython(), "kernel")` to find out whether displays are shown
    takes_recordings = True  # makes `autograder.view` send recordings, which are drawn when the outputs are stored

    def run(self, text: str) -> CellRun:
        """Run a cell and return the result."""
        with self._captured(), _without_stdin():
            result = self.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            # A cell may replace the function that shows errors. nbgrader (0.9.6, Execute) adds the error from the kernel's reply.
            self.outputs.error_if_none(type(error).__name__, str(error))
        return CellRun(self.outputs.take(), error, result.result)

    def should_run_async(
        self, raw_cell: str, *, transformed_cell: Any = None, preprocessing_exc_tuple: Any = None
    ) -> bool:
        """Return whether a cell awaits something. IPython compiles every cell for this; here, only those with one of the words."""
        return any(word in (transformed_cell or "") for word in AWAITING) and super().should_run_async(
            raw_cell, transformed_cell=transformed_cell, preprocessing_exc_tuple=preprocessing_exc_tuple
        )

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Store no error in IPython's history (9.2 and later), which is not used; it would call the error's `__str__` again."""
        return {}

    def reset_namespace(self) -> None:
        """Reset the namespace to that of a new kernel. IPython's own reset also collects garbage, which takes 0.2 s."""
        self.user_ns.clear()
        # Tests often follow `if __name__ == "__main__":`; without this name, Python would find that of builtins.
        self.user_ns.update(vars(types.ModuleType("__main__")), __builtin__=builtins, __builtins__=builtins)
        self.init_user_ns()
        history: Any = self.history_manager
        history.reset(new_session=False)
        self.displayhook._, self.displayhook.__, self.displayhook.___ = "", "", ""
        self.execution_count = 1
        self.outputs.take()

    def enable_gui(self, gui: str | None = None) -> None:
        """Start no event loop. IPython 9.18 raises NotImplementedError here, and `%matplotlib inline` calls it first."""

    @contextlib.contextmanager
    def separate_outputs(self, budget: int) -> Iterator[Outputs]:
        """Collect the outputs of the block separately, up to `budget` bytes; for functions that a check calls."""
        cell_outputs, self.outputs = self.outputs, Outputs(budget)
        try:
            with self._captured():
                yield self.outputs
        finally:
            self.outputs = cell_outputs

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.outputs.error(str(etype.__name__), str(evalue), [str(line) for line in stb])

    @contextlib.contextmanager
    def _captured(self) -> Iterator[None]:
        # Output of C code and child processes bypasses sys.stdout; it is read from a file after the cell.
        streams = _Stream(self.outputs, "stdout"), _Stream(self.outputs, "stderr")
        written: list[tuple[str, str]] = []
        files = _redirected(1, "stdout", written), _redirected(2, "stderr", written)
        with files[0], files[1], redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            yield
        for name, text in written:
            self.outputs.stream(name, text)


def make_shell(output_bytes: int) -> Shell:
    """Return the process's shell, which does not use IPython's start-up and history files."""
    config = Config()
    config.HistoryManager.enabled = False  # its SQLite file uses a thread, and this process forks
    config.InteractiveShell.colors = "Neutral"  # ipykernel 7 uses the same colors in tracebacks
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if "IPYTHONDIR" not in os.environ:
        os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="ipython-")
    shell = Shell.instance(config=config)
    shell.input_transformer_manager = Transformers()
    shell.outputs = Outputs(output_bytes)
    return shell


def limited(seconds: float) -> AbstractContextManager[None]:
    """Return a context that raises CellTimeoutError in its block when the time is up."""
    return time_limit(seconds, lambda: _timed_out(seconds))


@contextlib.contextmanager
def interrupt_on_signal(seconds: float) -> Iterator[None]:
    """Raise CellTimeoutError in the block when the grader signals that the time is up.

    Only the grader knows how long other processes have kept this process and its children waiting for a processor. Code
    can catch the exception, so this limit is not a security measure.
    """

    def stop(*_: object) -> NoReturn:
        # without `from None`, showing this error would call the previous exception's `__str__`
        raise _timed_out(seconds) from None

    before = signal.signal(TIMEOUT_SIGNAL, stop)
    try:
        yield
    finally:
        signal.signal(TIMEOUT_SIGNAL, before)


def _timed_out(seconds: float) -> CellTimeoutError:
    return CellTimeoutError(f"stopped after {seconds:g} seconds")


class _Stream(io.TextIOBase):
    """sys.stdout or sys.stderr while a cell runs; `fileno` belongs to the file that collects the output of C code."""

    encoding = "utf-8"

    def __init__(self, outputs: Outputs, name: str) -> None:
        self._outputs, self.name, self._number = outputs, name, 1 if name == "stdout" else 2

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outputs.stream(self.name, text)
        return len(text)

    def fileno(self) -> int:
        return self._number


@contextlib.contextmanager
def _redirected(number: int, name: str, texts: list[tuple[str, str]]) -> Iterator[None]:
    """Redirect a file descriptor to an unnamed file; after the block, add the text that was written there to `texts`."""
    file = _files.pop() if _files else tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - used again by later cells
    original = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(original, number)
        os.close(original)
        if data := os.pread(file.fileno(), 1_000_000, 0):
            texts.append((name, data.decode("utf-8", "replace")))
            file.close()  # a process that the cell has started may write more
        else:
            _files.append(file)


_files: list[io.FileIO] = []
"""Files for the output of C code that are still empty, as after most cells. A forked process opens its own."""
os.register_at_fork(after_in_child=_files.clear)


@contextlib.contextmanager
def _without_stdin() -> Iterator[None]:
    def refuse(*_: Any) -> NoReturn:
        # ipykernel's message (7.4) without a frontend
        raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")

    before, builtins.input = builtins.input, refuse
    try:
        yield
    finally:
        builtins.input = before


KERNELS = frozenset(
    {
        "IPython", "asttokens", "comm", "dateutil", "debugpy", "decorator", "executing", "ipykernel", "jupyter_client",
        "jupyter_core", "matplotlib_inline", "nest_asyncio", "packaging", "pexpect", "platformdirs", "prompt_toolkit",
        "psutil", "ptyprocess", "pure_eval", "pygments", "six", "stack_data", "tornado", "traitlets", "wcwidth", "zmq",
    }
)  # fmt: skip
"""Packages that a kernel (ipykernel 7) has imported before its first cell; a file with such a name cannot replace them."""
PACKAGES = {"site-packages", "dist-packages"}
STDLIB = sysconfig.get_path("stdlib")


def path_with(folder: str, paths: Iterable[str]) -> list[str]:
    """Return a module path with a notebook's folder after the standard library, as in IPython (9, shellapp.py)."""
    paths = list(paths)
    added = [path for path in paths if Path(path).is_relative_to(STDLIB) and not PACKAGES & set(Path(path).parts)]
    return [*added, folder, *(path for path in paths if path not in added)]


def replaced_modules(files: Iterable[str]) -> set[str]:
    """Return the names of the modules that these files, given by relative path, replace, except those that a kernel has imported."""
    names = set()
    for file in files:
        name, _, inner_path = file.partition("/")
        if inner_path in ("", "__init__.py"):
            names.add(name if inner_path else name.removesuffix(".py") if name.endswith(".py") else "")
    return names - {"", PACKAGE.name} - sys.stdlib_module_names - KERNELS


def unload_modules(names: set[str]) -> dict[str, types.ModuleType]:
    """Remove the modules with these names, and their submodules, from the imported modules, and return them."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in names] if names else []
    return {name: sys.modules.pop(name) for name in loaded}
