"""A function mode that logs the PyTorch calls of a thread which create nodes or modify tensors in place, as numbers only.

The logs refer to no tensors or frames, not even weakly. A saved tensor keeps its storage alive, so all later
modifications logged for the number of that storage modified the saved tensor, and rows stay valid when PyTorch reuses
freed memory.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.entry_points import EXPOSING, METADATA, function_name
from autograder.tape.internals.mode_stack import is_active, next_sequence_number, push_mode, remove_mode
from autograder.tape.internals.tensor_fields import mode_paused, read_version, storage_number
from autograder.tape.observe.tensors import FOREIGN
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.programs.source_text import is_own_file

_TYPED = ("<stdin>", "<string>")  # an interactive session, and `python -c`
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in the user's code. A code object refers to no tensor."""

    code: CodeType
    offset: int
    called: str

    @property
    def span(self) -> tuple[int, int, int, int]:
        """The first and last line of the call, and its columns in UTF-8 bytes, as in Python's `co_positions`."""
        line, end, column, end_column = next(islice(self.code.co_positions(), self.offset // 2, None))
        if line is None:
            return self.code.co_firstlineno, self.code.co_firstlineno, 0, 0
        return line, end or line, column or 0, end_column or 0

    @property
    def place(self) -> Place:
        """The line that a traceback of Python would name."""
        return self.place_at(self.span[0])

    def place_at(self, line: int) -> Place:
        """Return a line of the same file."""
        file = self.code.co_filename
        return Place(_shown(file), line, linecache.getline(file, line).strip())


def _shown(file: str) -> str:
    """Return the name of a file for the reader: relative to the working folder, or "Cell In[2]" for a notebook's cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = shell.compile.format_code_name(file) if shell else None
    if cell:
        return " ".join(cell)
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


class CallSites:
    """The numbers of call sites, so that a log contains only numbers."""

    def __init__(self) -> None:
        self.all: list[CallSite] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def number_of(self, frame: FrameType | None, called: str) -> int:
        """Return the number of the innermost call in the user's code, from `frame` outwards, or UNKNOWN."""
        while frame is not None:
            code = frame.f_code
            if is_own(code.co_filename):
                key = id(code), frame.f_lasti
                number = self._numbers.get(key)
                if number is None:
                    number = self._numbers[key] = len(self.all)
                    self.all.append(CallSite(code, frame.f_lasti, called))
                return number
            frame = frame.f_back
        return UNKNOWN


@functools.lru_cache(maxsize=10_000)
def is_own(file: str) -> bool:
    """Return whether a file belongs to the user."""
    return file in _TYPED or is_own_file(file)


def own_frames(frame: FrameType) -> list[FrameType]:
    """Return the frames of the user's code from `frame` outwards, outermost first."""
    return [outer for outer, _ in walk_stack(frame) if is_own(outer.f_code.co_filename)][::-1]


MOST = 1 << 20
"""Maximum number of rows in a table. The older half is deleted when it is exceeded."""


@dataclass(frozen=True, slots=True)
class NotedWrite:
    """An in-place modification, or a call that exposed memory to other libraries."""

    site: int  # number of the call site
    version: int | None  # version counter after the modification; None if it did not change
    # whether the call only gave other libraries, such as NumPy, access to the memory; they may have modified it later
    exposes: bool


_UNCOUNTED, _EXPOSED = -1, -2  # placeholders for a version


class NodeLog:
    """The nodes of a thread: ranges of sequence numbers, with the call that created them."""

    def __init__(self, begins: int):
        self.ends = array("q", [begins])
        self.sites = array("l", [UNKNOWN])
        self.clocks = array("q", [0])

    def note(self, before: int, after: int, site: int, clock: int) -> None:
        """Log that a call created the nodes from `before` to `after`. Earlier unlogged nodes get an unknown site."""
        if before > self.ends[-1]:
            self._append(before, UNKNOWN, clock)
        self._append(after, site, clock)

    def _append(self, end: int, site: int, clock: int) -> None:
        self.ends.append(end)
        self.sites.append(site)
        self.clocks.append(clock)
        if len(self.ends) > MOST:
            for column in (self.ends, self.sites, self.clocks):
                del column[: MOST // 2]

    def find(self, sequence: int) -> tuple[int, int] | None:
        """Return the site of the call that created a node and the number of writes logged before, or None if unknown."""
        row = bisect_right(self.ends, sequence)
        return (self.sites[row], self.clocks[row]) if 0 < row < len(self.ends) else None


class WriteLog:
    """The in-place modifications in order. `clock` is their number."""

    def __init__(self) -> None:
        self.storages, self.versions, self.sites = array("Q"), array("q"), array("l")
        self._forgotten = 0

    @property
    def clock(self) -> int:
        """The number of logged modifications."""
        return self._forgotten + len(self.storages)

    def note(self, storage: int, version: int | None, site: int, *, exposes: bool = False) -> None:
        """Log that a storage was modified, or exposed to another library."""
        self.storages.append(storage)
        self.versions.append(_EXPOSED if exposes else _UNCOUNTED if version is None else version)
        self.sites.append(site)
        if len(self.storages) > MOST:
            self._forgotten += MOST // 2
            for column in (self.storages, self.versions, self.sites):
                del column[: MOST // 2]

    def since(self, clock: int, storage: int | None = None) -> Iterator[tuple[int, NotedWrite]]:
        """Yield the storage and the modification of each row since `clock`, oldest first, for one storage or for all."""
        for row in range(max(clock - self._forgotten, 0), len(self.storages)):
            if storage is None or self.storages[row] == storage:
                version = self.versions[row]
                written = NotedWrite(self.sites[row], None if version < 0 else version, version == _EXPOSED)
                yield self.storages[row], written


# These may modify memory without a change of its version counter, now or later: running statistics, shared memory
# (PyTorch 2.13).
EXPOSING_FUNCTIONS = {*EXPOSING, "batch_norm", "instance_norm"}
SHARING_FUNCTIONS = {*FOREIGN} - {"data"}
# These modify memory without a change of its version counter (PyTorch 2.13).
UNCOUNTED_WRITES = ("data =", "set_", "_fused_")


class CallListener(TorchFunctionMode):
    """A function mode that logs each call of its thread, and calls `made(result, before)` after each call that created nodes.

    A function mode changes neither version counters nor the graph (torch 2.13). An error in the listener ends the log,
    never the job.
    """

    def __init__(self, sites: CallSites, writes: WriteLog, made: Callable[[object, int], None] | None = None):
        super().__init__()
        self.sites, self.writes, self.made = sites, writes, made
        self.nodes = NodeLog(next_sequence_number())  # the log of this thread's nodes
        self.failure: Exception | None = None  # the first error of the listener
        self.users = 0  # number of open watches of this thread
        self.open = True  # whether the listener is active
        self._hidden: tuple[str, int] | None = None
        self._stepping: list[tuple[Tensor, int]] = []
        self._names: dict[Callable[..., Any], str] = {}

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True  # pytest shows the test's own frames
        name = self._names.get(func)
        if name is None:
            name = function_name(func)
            name = self._names[func] = "" if name in METADATA else name
        if not name or not self.open:
            return func(*args, **kwargs) if kwargs else func(*args)
        written = self._versions(name, args, kwargs)
        before = next_sequence_number()
        result = func(*args, **kwargs) if kwargs else func(*args)
        after = next_sequence_number()
        try:
            if after != before:
                self.nodes.note(before, after, self.sites.number_of(sys._getframe(1), name), self.writes.clock)
                if self.made is not None:
                    self.made(result if result is not None else args[:1], before)
            if written:
                self._compare(written, name, sys._getframe(1))
            if name in SHARING_FUNCTIONS:
                frame = sys._getframe(1)
                for tensor in tensors(result):
                    storage = storage_of(tensor)
                    if storage is not None:
                        self.writes.note(storage, None, self.sites.number_of(frame, name), exposes=True)
        except Exception as error:
            self._fail(error)
        return result

    def _versions(self, name: str, args: Iterable[Any], kwargs: dict[Any, Any] | None) -> list[tuple[Tensor, int]]:
        """Return the tensors that the call may modify, with their versions before it; those in lists only if its name ends with `_`."""
        try:
            writes = name.endswith("_") and not name.startswith("__")
            arguments = tensors(args) if writes else [argument for argument in args if isinstance(argument, Tensor)]
            if kwargs:
                arguments += tensors(kwargs)
            try:
                return [(tensor, read_version(tensor)) for tensor in arguments]
            except RuntimeError:  # inference tensors have no version counter
                return [(tensor, version_or_zero(tensor)) for tensor in arguments]
        except Exception as error:
            self._fail(error)
            return []

    def _compare(self, written: list[tuple[Tensor, int]], name: str, frame: FrameType) -> None:
        uncounted, exposes = name.startswith(UNCOUNTED_WRITES), name in EXPOSING_FUNCTIONS
        for tensor, before in written:
            version = version_or_zero(tensor)
            if version != before or uncounted or exposes:
                storage = storage_of(tensor)
                if storage is not None:
                    site = self.sites.number_of(frame, name)
                    self.writes.note(storage, version if version != before else None, site, exposes=exposes)

    def _fail(self, error: Exception) -> None:
        self.failure, self.open = error, False

    def around(self, call: Callable[[], object], name: str, args: tuple[Any, ...], frame: FrameType) -> object:
        """Run and log a call that function modes do not receive, such as `Function.apply`, which creates a node and may modify tensors."""
        with mode_paused():
            written = self._versions(name, args, None)
            moved = [(storage, tensor) for tensor, _ in written if (storage := storage_of(tensor)) is not None]
        result = call()
        with mode_paused():
            begun, now, site = self.nodes.ends[-1], next_sequence_number(), self.sites.number_of(frame, name)
            if now > begun:
                self.nodes.note(begun, now, site, self.writes.clock)
            if self.made is not None:
                self.made(result, begun)
            self._compare(written, name, frame)
            for storage, tensor in moved:
                # After `set_`, a saved tensor keeps the old storage and shares the version counter.
                if storage_of(tensor) != storage:
                    self.writes.note(storage, version_or_zero(tensor), site)
        return result

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Pause the listener: the calls in an optimizer's step only modify its parameters."""
        self.hide("step")
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        self._stepping = self._versions("step", parameters, None)

    def step_ends(self, optimizer: torch.optim.Optimizer) -> None:
        """Log the modified parameters. A fused step does not increase version counters (PyTorch 2.13)."""
        written, self._stepping = self._stepping, []
        self._compare(written, "_fused_" if optimizer.defaults.get("fused") else "step", sys._getframe(1))
        self.show("step")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen in the block."""
        push_mode(self)
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Remove the listener from the stack."""
        remove_mode(self)
        self._hidden = None

    def hide(self, reason: str = "compiled") -> None:
        """Pause the listener for a reason, such as that compiled code runs. Do nothing if it is paused already."""
        if self._hidden is None and (below := remove_mode(self)) is not None:
            self._hidden = reason, below

    def show(self, reason: str = "compiled") -> None:
        """Continue at the previous position in the stack, if the listener was paused for this reason."""
        if self._hidden is not None and self._hidden[0] == reason:
            push_mode(self, self._hidden[1])
            self._hidden = None

    def absent(self) -> bool:
        """Return whether the listener is not on this thread's stack, and not paused either."""
        return self._hidden is None and not is_active(self)


def version_or_zero(tensor: Tensor) -> int:
    """Return a tensor's version, or 0 for an inference tensor and others without a counter."""
    try:
        return read_version(tensor)
    except RuntimeError:  # an inference tensor, or one wrapped by torch.func
        return 0


def storage_of(tensor: Tensor) -> int | None:
    """Return the number of a tensor's storage on any device, or None if it has no storage (sparse, wrapped by torch.func)."""
    if tensor.layout != torch.strided:
        return None
    try:
        return storage_number(tensor)
    except (RuntimeError, NotImplementedError):
        return None
