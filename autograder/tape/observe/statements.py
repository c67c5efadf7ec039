"""Statement by statement through the user's own files: which line runs, in which function, and when it is done."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType

from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.programs.program import Program

# They stand between a call and PyTorch, and pass it on: the line that did it is the caller's.
_BETWEEN = ("__torch_function__", "__torch_dispatch__")
_INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>")
_SILENT = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
    ast.Pass,
)


def statements_of(file: str) -> dict[int, tuple[int, bool]]:
    """Returns for each line of a file the line its innermost statement starts on, and whether that statement only declares."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    starts: dict[int, tuple[int, bool]] = {}
    for node in ast.walk(tree):
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
class Activation:
    """One call of a user's function that is running, and the statement it is at; `modules` are those its names were read from.

    Never keep one (its `number` tells it from others): its frame holds the user's variables, and a gradient that is still
    held is copied into `.grad`, where PyTorch 2.13 would have moved it.
    """

    number: int
    frame: FrameType
    function: str
    depth: int
    file: str
    line: int = 0
    event_line: int = 0
    declares: bool = False
    modules: dict[str, int] = field(default_factory=dict)

    @property
    def owner(self) -> object:
        """The object whose method this is, if any."""
        return self.frame.f_locals.get("self")


class _CallsOfThread(threading.local):
    def __init__(self) -> None:
        self.stack: list[Activation] = []


class Statements:
    """Calls `done(activation, complete)` each time a statement of the user's, or the part of one before a call, has run.

    `called` gets what no line of the user's has called, a function or the text itself, and `left` each function that has ended.
    """

    def __init__(
        self,
        program: Program,
        done: Callable[[Activation, bool], None],
        left: Callable[[Activation], None],
        called: Callable[[Activation], None],
    ):
        self.program, self.done, self.left, self.called = program, done, left, called
        self._starts: dict[str, dict[int, tuple[int, bool]]] = {}
        self._here = _CallsOfThread()
        self._main = threading.get_ident()
        self.threads = False
        self.entered = itertools.count(1)
        self._owned: dict[CodeType, bool] = {}

    @contextmanager
    def traced(self, *, begun: bool = True) -> Iterator[None]:
        """The code that runs inside is followed; a tracer that was there before (a debugger, coverage) is put back.

        With `begun=False`, it is followed only from `resume` on.
        """
        before = sys.gettrace()
        if begun:
            sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    @property
    def stack(self) -> list[Activation]:
        """The user's own calls that are running in this thread, outermost first."""
        return self._here.stack

    def resume(self, frame: FrameType | None) -> None:
        """Begins to follow a program that is under way, called from `frame`: the calls of the user's that led there are entered."""
        callers = []
        while frame is not None:
            callers.append(frame)
            frame = frame.f_back
        for caller in reversed(callers):
            if self._follows(caller.f_code):
                self._enter(caller)
                top = self.stack[-1]
                top.event_line = caller.f_lineno
                top.line, top.declares = self._starts[top.file].get(caller.f_lineno, (caller.f_lineno, False))
                caller.f_trace = self._local
        sys.settrace(self._call)

    def here(self) -> Place:
        """Returns the line that runs now; within a statement of many lines, the one Python's own traceback would name."""
        if not self.stack:
            return Place(self.program.file, 1, "")
        top = self.stack[-1]
        return place(self.program, top.frame.f_code.co_filename, top.frame.f_lineno)

    def place_of(self, activation: Activation) -> Place:
        """Returns the first line of the statement that an activation is at."""
        frame = activation.frame
        return place(self.program, activation.file, activation.line or frame.f_lineno or frame.f_code.co_firstlineno)

    @property
    def files(self) -> list[str]:
        """Returns the files whose statements ran."""
        return list(self._starts)

    @property
    def top(self) -> Activation | None:
        """The innermost of the user's own calls."""
        return self.stack[-1] if self.stack else None

    @property
    def frames(self) -> list[FrameType]:
        """Returns the frames of the user's own calls, outermost first."""
        return [activation.frame for activation in self.stack]

    def _call(self, frame, event, _argument):
        code = frame.f_code
        owned = self._owned.get(code)
        if owned is None:
            owned = self._owned[code] = self._follows(code)
        if not owned or event != "call":
            return None
        if self.stack:
            self.done(self.stack[-1], False)
        is_outermost = not self.stack and threading.get_ident() == self._main
        self._enter(frame)
        if is_outermost:
            self.called(self.stack[-1])
        return self._local

    def _follows(self, code: CodeType) -> bool:
        """Whether a code object is the user's, and runs statements: the body of a class only declares."""
        body_of_class = not code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "<module>"
        return self.program.owns(code.co_filename) and not body_of_class and code.co_name not in _BETWEEN

    def _enter(self, frame: FrameType) -> None:
        parent = self.stack[-1] if self.stack else None
        inner = frame.f_code.co_name in _INNER and parent is not None
        function = parent.function if inner and parent else frame.f_code.co_qualname.replace("<locals>.", "")
        elsewhere = threading.get_ident() != self._main
        self.threads = self.threads or elsewhere
        # In a thread of its own a function is as deep as if the module had called it: the module's names come first.
        depth = parent.depth + (not inner) if parent else int(elsewhere)
        file = frame.f_code.co_filename
        if file not in self._starts:
            self._starts[file] = statements_of(file)
        self.stack.append(Activation(next(self.entered), frame, function, depth, file))

    def _local(self, frame, event, _argument):
        if not self.stack or self.stack[-1].frame is not frame:
            return self._local  # entered before tracing began, or resumed out of order
        top = self.stack[-1]
        if event == "line":
            start, declares = self._starts[top.file].get(frame.f_lineno, (frame.f_lineno, False))
            if start != top.line or frame.f_lineno == top.event_line:
                if top.line:
                    self.done(top, True)
                top.line, top.declares = start, declares
            top.event_line = frame.f_lineno
        elif event == "return":
            if top.line:
                self.done(top, True)
            self.stack.pop()
            self.left(top)
        return self._local


def place(program: Program, filename: str, line: int) -> Place:
    """Returns a line of the user's as the reader sees it."""
    return Place(program.shown(filename), line, linecache.getline(filename, line).strip())
