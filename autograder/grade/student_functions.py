"""Calls of a student's function with plain data: the proxy in a judge, and the call itself in the student's process."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from autograder.errors import as_utf8, message_of
from autograder.grade.plain_values import NotPlain, decode, encode
from autograder.grade.sandbox.shell import CellTimeoutError
from autograder.grade.wire import messages
from autograder.locale.translations import in_english

LONGEST_TEXT = 4000  # characters of an exception's message
NEVER_RAISED = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)
"""Exceptions that would end a loop of the test's, or the test itself without an error."""


class StudentError(Exception):
    """An exception of the student's that a test cannot catch by its class; the message is for the student."""


class FunctionDescription(msgspec.Struct, frozen=True):
    """A student's function; `text` is its definition in the notebook, None if no cell defines it."""

    name: str
    text: str | None


class RaisedError(msgspec.Struct, frozen=True):
    """An exception: the names of its classes ("module:name"), from its own to `BaseException`, its message, and its arguments."""

    classes: list[str]
    message: str
    arguments: bytes | None = None


class FunctionReply(msgspec.Struct, frozen=True):
    """The result of a call.

    Attributes:
        value: the returned value; None if the call raised, or returned a value that is not plain.
        unsendable: why the value is not plain.
        printed: the text that the call wrote to stdout.
        changed: the arguments that the call changed in place, by position or by name.
    """

    value: bytes | None = None
    unsendable: str | None = None
    error: RaisedError | None = None
    printed: str = ""
    changed: list[tuple[int | str, bytes]] = []


def call_function(function: Callable[..., Any], arguments: bytes, printed: Callable[[], str]) -> bytes:
    """Return the reply of a student's function as msgpack; `printed` returns the text that it wrote to stdout.

    Raises:
        CellTimeoutError: the time of the call was up.
    """
    args, kwargs = decode(arguments)
    given: dict[int | str, Any] = dict(enumerate(args)) | kwargs
    before = {place: encode(value) for place, value in given.items() if _is_mutable(value)}
    try:
        value = function(*args, **kwargs)
    except CellTimeoutError:
        raise
    except BaseException as error:  # noqa: BLE001 - the test decides what an exception means
        reply = FunctionReply(error=_raised(error))
    else:
        try:
            reply = FunctionReply(value=encode(value))
        except NotPlain as error:
            reply = FunctionReply(unsendable=str(error)[:200])
    changed = [(place, now) for place, then in before.items() if (now := _encoded(given[place])) not in (then, None)]
    return msgspec.msgpack.encode(msgspec.structs.replace(reply, printed=printed(), changed=changed))


def _is_mutable(value: Any) -> bool:
    return not isinstance(value, (str, bytes, int, float, complex, type(None), range, frozenset))


def _encoded(value: Any) -> bytes | None:
    try:
        return encode(value)
    except NotPlain:
        return None


def _raised(error: BaseException) -> RaisedError:
    classes = [as_utf8(f"{kind.__module__}:{kind.__qualname__}")[:200] for kind in type(error).__mro__]
    return RaisedError(classes[:20], message_of(error)[:LONGEST_TEXT], _encoded(tuple(error.args)))


class Calls:
    """The calls that one test makes of the student's functions.

    Args:
        ask: sends a request to the student's process, and returns the reply.
        writes_back: whether arguments that a call changes in place change in the test, too.

    Attributes:
        wrote_arguments: whether a call has changed an argument in place.
        refusal: why the test cannot be judged, if a value could not cross; None if all could.
    """

    def __init__(self, ask: Callable[[Any], messages.Replied], writes_back: bool = False) -> None:
        self._ask, self._writes_back = ask, writes_back
        self.wrote_arguments = False
        self.refusal: str | None = None

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value that the student's function returns for these arguments; raise the exception that it raises."""
        try:
            request = messages.CallStudent(name, encode((args, kwargs)))
        except NotPlain as error:
            raise self._refused(in_english("an argument of {name} is {kind}", name=name, kind=str(error))) from None
        reply = self._reply(name, self._ask(request))
        given: dict[int | str, Any] = dict(enumerate(args)) | kwargs
        for place, data in reply.changed:
            self.wrote_arguments = True
            if self._writes_back and place in given:
                _overwrite(given[place], decode(data))
        sys.stdout.write(reply.printed)
        if reply.error is not None:
            raise _exception(reply.error)
        if reply.value is None:
            said = reply.unsendable or "nothing"
            raise self._refused(in_english("{name} returned {kind}", name=name, kind=said))
        return decode(reply.value)

    def _reply(self, name: str, replied: messages.Replied) -> FunctionReply:
        if replied.answer is None:
            raise StudentError(in_english("{name} was not called: {reason}", name=name, reason=replied.reason))
        answer = msgspec.msgpack.decode(replied.answer, type=messages.Answer)
        if isinstance(answer, messages.Failure) and answer.reason.startswith("CellTimeoutError: "):
            raise CellTimeoutError(answer.reason.partition(": ")[2])
        if not isinstance(answer, messages.StudentReturned):
            said = answer.reason if isinstance(answer, messages.Failure) else "it gave the answer to another question"
            raise StudentError(in_english("{name} was not called: {reason}", name=name, reason=said))
        return msgspec.msgpack.decode(answer.reply, type=FunctionReply)

    def _refused(self, reason: str) -> StudentError:
        self.refusal = self.refusal or reason
        return StudentError(reason)


def _overwrite(target: Any, new: Any) -> None:
    """Changes a test's object in place to the value that a student's function left in its copy."""
    if isinstance(target, (list, bytearray)):
        target[:] = new
    elif isinstance(target, (dict, set)):
        target.clear()
        target.update(new)
    elif hasattr(target, "_update_inplace"):  # pandas 2 and 3: DataFrame and Series
        target._update_inplace(new)
    elif hasattr(target, "data") and hasattr(target, "copy_"):
        target.data.copy_(new.data)
    elif hasattr(target, "dtype") and target.shape == new.shape:
        target[...] = new


def _exception(error: RaisedError) -> BaseException:
    """Return the exception that a test sees for one of the student's: of the same class if a library or Python defines it."""
    known = next(((place, kind) for place, name in enumerate(error.classes) if (kind := _class(name))), (0, Exception))
    place, kind = known
    if not issubclass(kind, Exception) or issubclass(kind, NEVER_RAISED):
        own = error.classes[0].rpartition(":")[2]
        return StudentError(f"{own}: {error.message}")
    if place:  # a class of the student's: named as there, and derived from the class that both sides have
        kind = type(error.classes[0].rpartition(":")[2].rpartition(".")[2], (kind,), {})
    arguments = (error.message,)
    if error.arguments is not None:
        arguments = decode(error.arguments)
    try:
        raised = kind.__new__(kind, *arguments)
        raised.args = arguments
    except Exception:  # noqa: BLE001 - a class whose exceptions cannot be made of their arguments
        return StudentError(f"{kind.__name__}: {error.message}")
    return raised


def _class(name: str) -> type[BaseException] | None:
    home, _, kind = name.partition(":")
    module = builtins if home == "builtins" else sys.modules.get(home) if home != "__main__" else None
    found = getattr(module, kind, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def described_function(name: str, text: str | None) -> bytes:
    """Return the description of a student's function as msgpack, for `function_proxy`."""
    return msgspec.msgpack.encode(FunctionDescription(name, text))


def function_proxy(description: bytes, calls: Calls) -> Callable[..., Any]:
    """Return a function that calls the student's, with its name, signature, docstring and text."""
    found = msgspec.msgpack.decode(description, type=FunctionDescription)

    def proxy(*args: Any, **kwargs: Any) -> Any:
        return calls.call(found.name, args, kwargs)

    proxy.__name__ = proxy.__qualname__ = found.name
    proxy.__module__ = "__main__"
    if found.text is not None:
        file = f"<{found.name} of the submission>"
        linecache.cache[file] = (len(found.text), None, found.text.splitlines(keepends=True), file)
        proxy.__code__ = proxy.__code__.replace(co_filename=file, co_firstlineno=1, co_name=found.name)
        definition = ast.parse(found.text).body[0]
        if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            proxy.__doc__ = ast.get_docstring(definition)
            proxy.__signature__ = _signature(definition.args)  # type: ignore[attr-defined]
    return proxy


def _signature(found: ast.arguments) -> inspect.Signature:
    """Return the signature of a definition; a default that is not a literal is given as `...`."""
    kinds = inspect.Parameter
    given = [*found.posonlyargs, *found.args]
    defaults = [None] * (len(given) - len(found.defaults)) + list(found.defaults)
    parameters = [
        _parameter(
            argument, kinds.POSITIONAL_ONLY if argument in found.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default
        )
        for argument, default in zip(given, defaults, strict=True)
    ]
    parameters += [_parameter(found.vararg, kinds.VAR_POSITIONAL, None)] if found.vararg else []
    parameters += [
        _parameter(argument, kinds.KEYWORD_ONLY, default)
        for argument, default in zip(found.kwonlyargs, found.kw_defaults, strict=True)
    ]
    parameters += [_parameter(found.kwarg, kinds.VAR_KEYWORD, None)] if found.kwarg else []
    return inspect.Signature(parameters)


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    value: Any = inspect.Parameter.empty
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = ...
    return inspect.Parameter(argument.arg, kind, default=value)
