"""Trace the statements in the user's files: the line that runs, its function, and the end of each statement."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.programs.program import Program

# These methods pass a call on to PyTorch, so the caller's line is named instead.
_BETWEEN = ("__torch_function__", "__torch_dispatch__")
_INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>")
_SILENT = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Pass,
)  # fmt: skip


FILES = 1024  # files whose trees are kept; the library of a project may have hundreds


@functools.lru_cache(maxsize=FILES)
def tree_of(text: str) -> ast.Module | None:
    """Return the tree of a source text, or None if it is not Python. Do not change it: all runs of a program use the same one."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def tree_of_file(file: str) -> ast.Module | None:
    """Return the tree of a file, or None if it is not Python."""
    return tree_of("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=FILES)
def statements_of(tree: ast.Module | None) -> dict[int, tuple[int, bool]]:
    """Return, for each line of a file, the first line of its innermost statement, and whether that is only a declaration."""
    starts: dict[int, tuple[int, bool]] = {}
    for node in ast.walk(tree) if tree else ():
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(first, max(first, last) + 1):
            starts[line] = (first, text or isinstance(node, _SILENT))
    return starts


@dataclass(eq=False)
class ActiveCall:
    """An active call of a user's function, and its current statement. `modules` are those whose tensors were named.

    Do not keep a reference to it (use its `number`): its frame refers to the user's variables, and backward copies a
    gradient with a reference into `.grad`, while PyTorch 2.13 would otherwise move it.
    """

    number: int
    frame: FrameType
    function: str
    depth: int
    file: str
    starts: dict[int, tuple[int, bool]]
    line: int = 0
    event_line: int = 0
    declares: bool = False
    modules: dict[str, int] = field(default_factory=dict)


Handler = Callable[[ActiveCall], None]


class CallsOfThread(threading.local):
    """The active calls of the user's functions in each thread, and whether it is not traced until `resume` is called."""

    def __init__(self) -> None:
        self.stack: list[ActiveCall] = []  # outermost first
        self.is_paused = False


class Statements:
    """Calls `done(active_call, complete)` after each statement of the user, and after the part of a statement before a call.

    `called` receives activations without a caller in the user's code: a function, or the text itself. `left` receives
    each function that has ended.
    """

    def __init__(self, program: Program, done: Callable[[ActiveCall, bool], None], left: Handler, called: Handler):
        self.program, self.done, self.left, self.called = program, done, left, called
        self._starts: dict[str, dict[int, tuple[int, bool]]] = {}
        self.thread = CallsOfThread()
        self._main = threading.get_ident()
        self.threads = False
        self.entered = itertools.count(1)
        self._owned: dict[int, tuple[CodeType, bool]] = {}

    @contextmanager
    def traced(self, *, begun: bool = True) -> Iterator[None]:
        """Trace the code in the block, or (with `begun=False`) from `resume` on, and restore the previous tracer (a debugger, coverage)."""
        before = sys.gettrace()
        if begun:
            sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def pause(self) -> None:
        """Stop to trace this thread."""
        self.thread.is_paused = True
        sys.settrace(None)

    def resume(self, frame: FrameType) -> None:
        """Start to trace a running program: its active calls of the user's functions are those that led to `frame`."""
        self.thread.is_paused = False
        callers = [outer for outer, _ in walk_stack(frame) if self._is_followed(outer.f_code)][::-1]
        stack, same = self.thread.stack, 0
        while same < min(len(callers), len(stack)) and stack[same].frame is callers[same]:
            same += 1
        while len(stack) > same:
            self.left(stack.pop())
        for caller in callers[same:]:
            self._enter(caller)
        for active in stack:
            active.event_line = active.frame.f_lineno
            active.line, active.declares = active.starts.get(active.event_line, (active.event_line, False))
            active.frame.f_trace = self._local
        sys.settrace(self._call)

    def here(self) -> Place:
        """Return the line that runs now, which is the line that a traceback would name within a statement of several lines."""
        frame = self.frame
        if frame is None:
            return Place(self.program.file, 1, "")
        return self.program.place(frame.f_code.co_filename, frame.f_lineno)

    @property
    def frame(self) -> FrameType | None:
        """The frame of the user's function that runs now."""
        if not self.thread.is_paused:
            return self.top.frame if self.top else None
        frames = (frame for frame, _ in walk_stack(sys._getframe(1)))
        return next((frame for frame in frames if self._is_followed(frame.f_code)), None)

    def line_of(self, frame: FrameType) -> tuple[str, int]:
        """Return the file of a frame, and the first line of its current statement."""
        file = frame.f_code.co_filename
        return file, self._starts_in(file).get(frame.f_lineno, (frame.f_lineno, False))[0]

    def place_of(self, active_call: ActiveCall) -> Place:
        """Return the first line of the current statement of an active call."""
        frame = active_call.frame
        return self.program.place(active_call.file, active_call.line or frame.f_lineno or frame.f_code.co_firstlineno)

    @property
    def files(self) -> list[str]:
        """The files whose statements ran."""
        return list(self._starts)

    @property
    def top(self) -> ActiveCall | None:
        """The innermost active call of a user's function, or None."""
        return self.thread.stack[-1] if self.thread.stack else None

    @property
    def frames(self) -> list[FrameType]:
        """The frames of the active calls of the user's functions, outermost first."""
        return [active_call.frame for active_call in self.thread.stack]

    def _call(self, frame: Any, event: Any, _argument: Any) -> Any:
        if not self._is_followed(frame.f_code) or event != "call":
            return None
        stack = self.thread.stack
        if stack:
            self.done(stack[-1], False)
        is_outermost = not stack and threading.get_ident() == self._main
        self._enter(frame)
        if is_outermost:
            self.called(stack[-1])
        return self._local

    def _is_followed(self, code: CodeType) -> bool:
        """Return whether a code object belongs to the user and runs statements. The body of a class only declares."""
        entry = self._owned.get(id(code))  # its hash takes longer, because it depends on all constants
        if entry is None:
            body_of_class = not code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "<module>"
            owned = self.program.owns(code.co_filename) and not body_of_class and code.co_name not in _BETWEEN
            entry = self._owned[id(code)] = code, owned
        return entry[1]

    def _starts_in(self, file: str) -> dict[int, tuple[int, bool]]:
        if file not in self._starts:
            self._starts[file] = statements_of(tree_of_file(file))
        return self._starts[file]

    def _enter(self, frame: FrameType) -> None:
        parent = self.top
        inner = frame.f_code.co_name in _INNER and parent is not None
        function = parent.function if inner and parent else frame.f_code.co_qualname.replace("<locals>.", "")
        elsewhere = threading.get_ident() != self._main
        self.threads = self.threads or elsewhere
        # A function that starts a thread gets the depth of a call from the module, because names of the module have
        # priority.
        depth = parent.depth + (not inner) if parent else int(elsewhere)
        file = frame.f_code.co_filename
        self.thread.stack.append(ActiveCall(next(self.entered), frame, function, depth, file, self._starts_in(file)))

    def _local(self, frame: Any, event: Any, _argument: Any) -> Any:
        stack = self.thread.stack
        if not stack or stack[-1].frame is not frame:
            return self._local  # entered before tracing began, or resumed out of order
        top = stack[-1]
        if event == "line":
            line = frame.f_lineno
            start, declares = top.starts.get(line) or (line, False)
            if start != top.line or line == top.event_line:
                if top.line:
                    self.done(top, True)
                top.line, top.declares = start, declares
            top.event_line = line
        elif event == "return":
            if top.line:
                self.done(top, True)
            stack.pop()
            self.left(top)
        return self._local
