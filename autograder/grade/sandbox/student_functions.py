"""Calls of a student's function with plain values: the proxy in a judge, and the call itself in the student's process.

The proxy has the name, signature, docstring and source of the definition in the notebook. Calling it raises the
exceptions and prints the output of the student's function. An argument that the call changed in place changes in the
test only if the calls write back; otherwise `Calls.wrote_arguments` is set. A generator, a closure or an object of a
student's class is not a plain value: `Calls.refusal` then contains the reason, and the test is not judged.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys
import traceback
from collections import deque
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NoReturn

import msgspec

from autograder.errors import as_utf8, message_of
from autograder.grade.sandbox.shell import CellTimeoutError
from autograder.grade.wire.plain_values import NotPlain, decode, encode
from autograder.locale.messages import Message

FILE = "<{} in the submission>"
LONGEST_MESSAGE = 4000  # in characters
LONGEST_NAME = 200
MOST_CLASSES = 20
IMMUTABLE = (str, bytes, int, float, complex, type(None), range, frozenset)
EXCEPTION_LIBRARIES = frozenset({"builtins", "numpy", "torch", "pandas", "decimal", "json", "statistics", "zoneinfo"})
NEVER_RAISED = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that would end a loop of the test without an error; exceptions outside of Exception would end the test."""


class StudentError(Exception):
    """A call without a result, or an exception that must be hidden from the test; the message is for the student."""


class RaisedError(msgspec.Struct, frozen=True):
    """An exception that a student's function raised, as plain data."""

    classes: list[str]  # names ("module:name") of its class and the bases, as in `__mro__`
    message: str  # the value of `str`
    arguments: bytes | None = None  # its `args`, encoded by `plain_values.encode`; None if they are not plain
    line: int = 0  # the line of the function that was running, from 1; 0 if the function did not begin


class FunctionReply(msgspec.Struct, frozen=True):
    """The result of a call."""

    value: bytes | None = None  # the returned value; None if the call raised, or returned a value that is not plain
    refusal: str | None = None  # the reason why the value is not plain
    error: RaisedError | None = None  # the exception that the call raised
    printed: str = ""  # the text that the call wrote to stdout
    # the arguments that the call changed in place, by position or name; None for one that is no longer plain
    changed: list[tuple[int | str, bytes | None]] = []


def call_function(function: Callable[..., Any], arguments: bytes, printed: Callable[[], str]) -> bytes:
    """Call a student's function and return a FunctionReply as msgpack.

    The arguments are a tuple and a dictionary, encoded as a pair by `plain_values.encode`; `printed` returns the text
    that the call wrote to stdout. It raises CellTimeoutError when the time of the call is up.
    """
    args, kwargs = decode(arguments)
    values: dict[int | str, Any] = dict(enumerate(args)) | kwargs
    before = {place: encode(value) for place, value in values.items() if not isinstance(value, IMMUTABLE)}
    try:
        reply = FunctionReply(value=encode(function(*args, **kwargs)))
    except CellTimeoutError:
        raise
    except NotPlain as error:
        reply = FunctionReply(refusal=str(error)[:LONGEST_NAME])
    except BaseException as error:  # the test decides what an exception means
        reply = FunctionReply(error=_raised(error, getattr(function, "__code__", None)))
    changed = [(place, now) for place, then in before.items() if (now := _encoded(values[place])) != then]
    return msgspec.msgpack.encode(msgspec.structs.replace(reply, printed=printed(), changed=changed))


def _encoded(value: Any) -> bytes | None:
    try:
        return encode(value)
    except NotPlain:
        return None


def _raised(error: BaseException, code: CodeType | None) -> RaisedError:
    classes = [as_utf8(f"{kind.__module__}:{kind.__name__}")[:LONGEST_NAME] for kind in type(error).__mro__]
    arguments = tuple(error.args)
    if isinstance(error, OSError) and error.filename is not None and len(arguments) == 2:
        arguments += (error.filename,)  # OSError removes the file name from its arguments
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line - code.co_firstlineno + 1 for frame, line in frames if code and frame.f_code is code]
    message = message_of(error)[:LONGEST_MESSAGE]
    return RaisedError(classes[:MOST_CLASSES], message, _encoded(arguments), lines[-1] if lines else 0)


class Calls:
    """The calls of the student's functions in one test.

    `call` sends the function's name and the encoded arguments to the student's process, and returns the FunctionReply
    as msgpack; it raises StudentError if there is no reply. With `writes_back`, an argument that a call changes in
    place also changes in the test.
    """

    def __init__(self, call: Callable[[str, bytes], bytes], writes_back: bool = False) -> None:
        self._call, self._writes_back = call, writes_back
        self.wrote_arguments = False  # whether a call has changed an argument in place
        self.refusal: str | None = None  # the reason why the test cannot be judged; None if every value could cross

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value that the student's function returns; raise the exception that it raises."""
        try:
            arguments = encode((args, kwargs))
        except NotPlain as error:
            raise self._refused(
                Message(
                    "test.argument_cannot_be_sent|an argument of {name} cannot be sent to its process: {kind}",
                    name=name,
                    kind=str(error),
                )
            ) from None
        try:
            reply = msgspec.msgpack.decode(self._call(name, arguments), type=FunctionReply)
            value = None if reply.value is None else decode(reply.value)
            changed = [(place, None if data is None else decode(data)) for place, data in reply.changed]
        except ValueError:  # includes msgspec's errors
            raise StudentError(Message("test.bad_reply|{name} gave a reply that cannot be read", name=name)) from None
        self._note_changes(name, dict(enumerate(args)) | kwargs, changed)
        sys.stdout.write(reply.printed)
        if reply.error is not None:
            _raise_in(name, reply.error.line, _exception(reply.error))
        if reply.value is None:
            kind = reply.refusal or Message("test.unreadable_value|a value that cannot be read")
            raise self._refused(
                Message(
                    "test.result_cannot_leave|the value that {name} returned cannot leave its process: {kind}",
                    name=name,
                    kind=kind,
                )
            )
        return value

    def _note_changes(self, name: str, values: dict[int | str, Any], changed: list[tuple[int | str, Any]]) -> None:
        for place, new in changed:
            self.wrote_arguments = True
            if self._writes_back and place in values and _updated(values[place], new) is not values[place]:
                message = Message(
                    "test.changed_argument|{name} changed an argument in a way that cannot be repeated in the test",
                    name=name,
                )
                raise self._refused(message)

    def _refused(self, reason: str) -> StudentError:
        self.refusal = self.refusal or reason
        return StudentError(reason)


def _updated(target: Any, new: Any) -> Any:
    """Change a test's object in place to the value in `new`, keeping its parts if possible; return `new` if it cannot be changed."""
    if type(target) is not type(new):
        return new
    if isinstance(target, (list, tuple)):
        items = [_updated(old, item) for old, item in zip(target, new, strict=False)] + list(new[len(target) :])
        if isinstance(target, list):
            target[:] = items
            return target
        same = len(target) == len(new) and all(item is old for old, item in zip(target, items, strict=False))
        return target if same else new
    if isinstance(target, dict):
        items = [(key, _updated(target[key], value) if key in target else value) for key, value in new.items()]
        target.clear()
        target.update(items)
        return target
    if isinstance(target, (set, bytearray, deque)):
        target.clear()
        add_all = target.update if isinstance(target, set) else target.extend
        add_all(new)
        return target
    return _updated_array(target, new)


def _updated_array(target: Any, new: Any) -> Any:
    library, kind = type(target).__module__.partition(".")[0], type(target).__name__
    if library == "torch" and kind in ("Tensor", "Parameter"):
        if target.shape == new.shape and target.dtype == new.dtype:
            target.detach().copy_(new.detach())
        else:
            target.data = new.detach()
        if target.is_leaf:
            target.requires_grad_(new.requires_grad)
            target.grad = new.grad
        return target
    if (
        library == "numpy"
        and kind in ("ndarray", "MaskedArray")
        and (target.shape, target.dtype) == (new.shape, new.dtype)
    ):
        target[...] = new
        return target
    if library == "pandas" and kind in ("DataFrame", "Series"):
        type(target).__init__(target, new)  # called on the existing object, so that all references to it see the change
        return target
    return target if type(target) in IMMUTABLE and target == new else new


def _raise_in(name: str, line: int, error: Exception) -> NoReturn:
    """Raise an exception from a line of the student's function, which its traceback then quotes."""
    file = FILE.format(name)
    if 0 < line <= len(linecache.getlines(file)):
        code = _raising.__code__.replace(co_filename=file, co_firstlineno=line - 1, co_name=name)
        FunctionType(code, {}, name)(error)
    raise error


def _raising(*args: Any, **kwargs: Any) -> NoReturn:
    raise args[0]


def _exception(error: RaisedError) -> Exception:
    """Return the exception that a test sees: of the same class if Python or a data library defines it."""
    name_of_class = error.classes[0].rpartition(":")[2] if error.classes else ""
    unseen = StudentError(f"{name_of_class}: {error.message}")
    seen = [(place, kind) for place, name in enumerate(error.classes) if (kind := _exception_class(name))]
    if not seen or any(issubclass(kind, NEVER_RAISED) for _, kind in seen):
        return unseen
    place, kind = seen[0]
    try:
        if place:  # a class of the student
            kind = type(name_of_class, (kind,), {"__module__": "__main__", "__str__": lambda self: error.message})
        arguments = (error.message,) if error.arguments is None else decode(error.arguments)
        if kind.__module__ == "builtins":
            return kind(*arguments)
        raised = kind.__new__(kind, *arguments)
        raised.args = arguments
    except Exception:  # a class whose exceptions cannot be made of their arguments, or forged ones
        return unseen
    return raised


def _exception_class(name: str) -> type[Exception] | None:
    home, _, name = name.partition(":")
    module = sys.modules.get(home) if home.partition(".")[0] in EXCEPTION_LIBRARIES else None
    kind = getattr(module, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def function_proxy(name: str, text: str | None, calls: Calls) -> Callable[..., Any]:
    """Return a function that calls the student's, with the name, signature, docstring and source of its definition, if there is one."""
    file = FILE.format(name)
    linecache.cache.pop(file, None)
    if text is not None:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    header = _header(text or f"def {name}(*args, **kwargs): ...", file)

    # `inspect` finds signature and source through `__wrapped__`; a frame of the proxy itself is not shown on a page.
    @functools.wraps(header)
    def proxy(*args: Any, **kwargs: Any) -> Any:
        return calls.call(name, args, kwargs)

    return proxy


def _header(text: str, file: str) -> Callable[..., Any]:
    """Return the function of a definition without its statements; of its expressions, only literals and names of builtins are evaluated."""
    definition = ast.parse(text).body[0]
    assert isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef))
    parameters = definition.args
    parameters.defaults = [_literal(default) for default in parameters.defaults]
    parameters.kw_defaults = [default and _literal(default) for default in parameters.kw_defaults]
    for argument in ast.walk(parameters):
        if isinstance(argument, ast.arg):
            argument.annotation = _annotation(argument.annotation)
    body: list[ast.stmt] = [ast.Pass()] if ast.get_docstring(definition) is None else definition.body[:1]
    header = ast.FunctionDef(definition.name, parameters, body, [], _annotation(definition.returns))
    tree = ast.fix_missing_locations(ast.Module([ast.copy_location(header, definition)], []))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(tree, file, "exec", dont_inherit=True), names)
    function: Callable[..., Any] = names[definition.name]
    return function


def _literal(node: ast.expr) -> ast.expr:
    """Return a default; `...` if it is not a literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.Constant(...)
    return node


def _annotation(node: ast.expr | None) -> ast.expr | None:
    """Return an annotation that is a constant or the name of a builtin, and the source of any other."""
    if node is None or isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and hasattr(builtins, node.id)):
        return node
    return ast.Constant(ast.unparse(node))
