"""Runs in a worker beside the model answers: records the calls that tests make of them, and repeats these calls with a mutant.

The code here is the teacher's own and edits of it, so what it answers is not distrusted; the worker is there because an
edit may do anything.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from autograder.check.programs.outcome import check_outcome
from autograder.grade.rehearsal.play.comparison import ASPECTS, CallOutcome, copied, outcome, same
from autograder.grade.rehearsal.play.mutants import comparable
from autograder.grade.rehearsal.play.plain_outcome import plain_outcome
from autograder.grade.rehearsal.play.variations import variations

CALLS = 8  # of each function are kept; tests often repeat one call

Path = tuple[str, ...]


class RecordedCall(NamedTuple):
    """One recorded call of something that an answer defined.

    Attributes:
        path: a function's name, or a class's and a method's.
        arguments: copies of the positional arguments.
        keywords: copies of the others.
        grad_mode: whether autograd recorded.
        dtype: PyTorch's default.
    """

    path: Path
    arguments: list[Any]
    keywords: dict[str, Any]
    grad_mode: bool
    dtype: torch.dtype


class _Answer(NamedTuple):
    """What was there before an answer's cell ran, and what the cell bound."""

    before: dict[str, Any]
    bound: dict[str, Any]


class Probe:
    """Knows the model answers of one notebook while its cells run, and the calls of them."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.answers: dict[str, _Answer] = {}
        self.calls: list[RecordedCall] = []
        self.outcomes: set[str] = set()  # names of programs of which a test asks for an outcome only
        self._paths: dict[types.CodeType, Path] = {}
        self._asking = False

    def before(self, answer: str) -> None:
        """Notes what there is before a model answer's cell runs."""
        self.answers[answer] = _Answer({name: copied(value) for name, value in self.names.items()}, dict(self.names))

    def after(self, answer: str) -> None:
        """Notes what the cell bound."""
        before, known = self.answers[answer]
        new = {name: value for name, value in self.names.items() if known.get(name, self) is not value}
        bound = {name: value for name, value in new.items() if not name.startswith("_")}
        self.answers[answer] = _Answer(before, bound)
        for name, value in bound.items():
            self._paths |= {function.__code__: path for path, function in _functions(value, name).items()}

    def record(self) -> None:
        """Begins to record calls of the answers."""
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        """Ends recording."""
        sys.setprofile(None)

    def _on_event(self, frame: types.FrameType, event: str, _: Any) -> None:
        if frame.f_code is check_outcome.__code__ and event in ("call", "return"):
            self._asking = event == "call"
            self.outcomes.add(frame.f_locals["exercise"])
        if self._asking:
            return  # what a check of an outcome calls, it does not ask for a value
        path = self._paths.get(frame.f_code) if event == "call" else None
        if path is None or sum(call.path == path for call in self.calls) >= CALLS:
            return
        sys.setprofile(None)  # copying may call what is recorded
        try:
            self.calls.append(_call(path, frame))
        finally:
            sys.setprofile(self._on_event)

    def difference(self, answer: str, text: str) -> str:
        """Returns in what a mutant of an answer differs from it, "" if in nothing that was looked at.

        Args:
            answer: the grade_id of the answer's cell.
            text: the whole cell of the mutant, in plain Python.
        """
        mine = self.answers[answer]
        theirs = {name: copied(value) for name, value in mine.before.items()}
        try:
            exec(compile(text, "mutant", "exec"), theirs)
        except BaseException as error:  # noqa: BLE001 - an edit may do anything
            return f"the cell raises {type(error).__name__}"
        theirs |= {name: value for name, value in self.names.items() if name not in {*theirs, *mine.bound}}
        return next((found for name in mine.bound for found in self._differences(name, mine.bound[name], theirs)), "")

    def _differences(self, name: str, right: Any, theirs: dict[str, Any]) -> Iterator[str]:
        if name not in theirs:
            yield f"{name} is missing"
        elif theirs[name] is right:
            return  # what the cell imports is the same for both
        elif not callable(right):
            if not isinstance(right, types.ModuleType) and not same(right, theirs[name]):
                yield f"{name} has another value"
        elif _other_defaults(right, theirs[name]):
            yield f"{name} has other defaults"
        elif not _same_code(right, theirs[name]):
            yield from self._differing_calls(name, right, theirs[name])

    def _differing_calls(self, name: str, right: Any, other: Any) -> Iterator[str]:
        promised = explicit_errors(right)
        told = name in self.outcomes
        if told and plain_outcome(right) != plain_outcome(other):
            yield f"{name} has another outcome"
        for call in (call for call in self.calls if call.path[0] == name):
            expected = _outcome(call, right)
            if expected.error and expected.error not in promised:
                continue  # it cannot be repeated outside of its test
            told = True
            if aspect := _aspect(expected, _outcome(call, other)):
                yield f"{'.'.join(call.path)} differs in {aspect} on what a test passes to it"
            yield from _differing_variations(call, right, other, promised)
        if not told:
            yield f"no test calls {name} in a way that can be repeated"


def _same_code(first: Any, second: Any) -> bool:
    """Returns whether the edit is elsewhere in the cell."""
    mine, theirs = _functions(first), _functions(second)
    return bool(mine) and {path: comparable(function.__code__) for path, function in mine.items()} == {
        path: comparable(function.__code__) for path, function in theirs.items()
    }


def _other_defaults(first: Any, second: Any) -> bool:
    mine, theirs = _functions(first), _functions(second)
    return any(
        not same([function.__defaults__, function.__kwdefaults__], [other.__defaults__, other.__kwdefaults__])
        for path, function in mine.items()
        if (other := theirs.get(path)) is not None
    )


def explicit_errors(right: Any) -> set[str]:
    """Returns the names of the errors that an answer raises by a statement of its own: these it promises."""
    names = [name for function in _functions(right).values() for name in function.__code__.co_names]
    return {name for name in names if name.endswith(("Error", "Exception"))}


def _differing_variations(call: RecordedCall, right: Any, other: Any, promised: set[str]) -> Iterator[str]:
    for arguments, keywords in variations([call.arguments, call.keywords]):
        varied = call._replace(arguments=arguments, keywords=keywords)
        expected = _outcome(varied, right)
        inside = not expected.error or expected.error in promised  # of what the answer promises
        if inside and (aspect := _aspect(expected, _outcome(varied, other))):
            yield f"{'.'.join(call.path)} differs in {aspect} on other input"


def _aspect(expected: CallOutcome, got: CallOutcome) -> str:
    """Returns in what a call differs, "" if in nothing."""
    pairs = zip(ASPECTS, expected, got, strict=True)
    return next((aspect for aspect, first, second in pairs if not same(first, second)), "")


def _outcome(call: RecordedCall, owner: Any) -> CallOutcome:
    arguments, keywords = copied([call.arguments, call.keywords])
    target = owner
    for part in call.path[1:]:
        target = _unwrapped(inspect.getattr_static(owner, part))
        if arguments and type(arguments[0]).__name__ == owner.__name__:
            arguments[0].__class__ = owner
    with torch.set_grad_enabled(call.grad_mode), _default_dtype(call.dtype):
        return outcome(target, arguments, keywords)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _functions(value: Any, name: str = "") -> dict[Path, types.FunctionType]:
    """Returns a function, or the methods of a class, by path."""
    if isinstance(value, types.FunctionType):
        return {(name,): value}
    members = vars(value).items() if inspect.isclass(value) else ()
    plain = {(name, key): _unwrapped(member) for key, member in members}
    return {path: function for path, function in plain.items() if isinstance(function, types.FunctionType)}


def _unwrapped(member: Any) -> Any:
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


def _call(path: Path, frame: types.FrameType) -> RecordedCall:
    given = inspect.getargvalues(frame)
    code, here = frame.f_code, given.locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = [here[name] for name in names[: code.co_argcount]] + list(here[given.varargs] if given.varargs else ())
    keywords = {name: here[name] for name in names[code.co_argcount :]} | (
        here[given.keywords] if given.keywords else {}
    )
    arguments, keywords = copied([positional, keywords])
    return RecordedCall(path, arguments, keywords, torch.is_grad_enabled(), torch.get_default_dtype())
