"""Proxies of the learner's functions in the trusted process, so that plain assertions can call them."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import msgspec
import numpy
import torch

from autograder.check.message import Unsolved
from autograder.grade.submission.worker_client import WorkerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.wire_values import from_plain, tensors, to_plain

CALL_IT = "it can only be called. Test it with check(...), or with a function that returns numbers or tensors"


STEERS = (StopIteration, StopAsyncIteration)
"""Exceptions that end a loop of the test's instead of failing it: `zip(map(f, inputs), expected)` stops at the first one."""


class LearnerError(Exception):
    """The learner's code raised an exception that is not one of Python's built-in types, or one that would steer the test."""


class NotPlain(Unsolved):
    """A value of the learner's cannot be sent from its process; the message says what can."""


class TestInputs:
    """What the learner's functions did to the arguments that one test gave them.

    Attributes:
        keep: whether writes into the test's own arguments stay in the worker, so that a test which computes what it expects
            from them afterwards cannot be fooled.
        borrowed: the ids of values that the test has from the learner; these change as in one process.
        written: whether a call wrote into an argument of the test's own.
    """

    def __init__(self, keep: bool = False) -> None:
        self.keep, self.borrowed, self.written = keep, set[int](), False

    def receive(self, argument: Any, sent: Any, after: Any) -> None:
        """Takes over what a call made of an argument; `sent` and `after` are its plain forms."""
        if msgspec.msgpack.encode(sent) == msgspec.msgpack.encode(after):
            return
        own = id(argument) not in self.borrowed
        self.written = self.written or own
        if not (own and self.keep):
            _write_back(argument, from_plain(after))


class LearnerFunction:
    """Calls a function in the worker. Arguments and result are sent as data; so are writes into the arguments, and gradients."""

    def __init__(self, worker: WorkerClient, name: str, kind: str, given: TestInputs) -> None:
        self._worker, self.__name__, self._kind, self._given = worker, name, kind, given

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotPlain(f"{self.__name__}.{name}: a {self._kind} cannot leave the submission's own process; {CALL_IT}")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns what the learner's function returns.

        Raises:
            NotPlain: the value cannot be sent.
            TypeError: an argument cannot be sent.
            Exception: of the type that the function raised, if it is one of Python's built-in types; else LearnerError.
        """
        request = messages.AskInvocation(
            self.__name__,
            [to_plain(argument) for argument in arguments],
            {name: to_plain(argument) for name, argument in keywords.items()},
        )
        returned = self._ask(request)
        sys.stdout.write(returned.printed)
        if returned.error:
            raise _exception(returned.error, returned.message)
        if returned.unsendable:
            raise NotPlain(f"{self.__name__}: {returned.unsendable}")
        try:
            value = from_plain(returned.value)
            value = self._with_history(value, returned, tensors([list(arguments), keywords]))
            for argument, sent, after in zip(arguments, request.arguments, returned.arguments, strict=True):
                self._given.receive(argument, sent, after)
            for name, argument in keywords.items():
                self._given.receive(argument, request.keywords[name], returned.keywords[name])
        except (ValueError, KeyError) as error:
            raise NotPlain(f"{self.__name__}: {error}") from None
        return value

    def _ask(self, request: messages.AskInvocation) -> messages.ReturnValue:
        try:
            return self._worker.ask(request, messages.ReturnValue)
        except WorkerEnded as error:
            raise LearnerError(f"{self.__name__} ended its process: {error}") from None
        except KeyError as error:
            raise LearnerError(f"{self.__name__} gave no answer: {error}") from None

    def _with_history(self, value: Any, returned: messages.ReturnValue, inputs: list[torch.Tensor]) -> Any:
        """Connects the returned tensors to the arguments in autograd's graph: backward asks the worker for the gradients."""
        found = tensors(value)
        positions = [index for index in returned.differentiable if index in range(len(found))]
        if not positions or not any(tensor.requires_grad for tensor in inputs):
            return value
        joined = _RemoteFunction.apply(
            self._worker, returned.invocation, positions, *[found[index] for index in positions], *inputs
        )
        return _replaced(value, {id(found[index]): tensor for index, tensor in zip(positions, joined, strict=True)})


class _RemoteFunction(torch.autograd.Function):
    """Values that the worker computed; only it can compute their gradients."""

    @staticmethod
    def forward(ctx: Any, worker: WorkerClient, invocation: int, positions: list[int], *tensors: torch.Tensor) -> Any:
        ctx.question = worker, invocation, positions
        ctx.shapes = [(tensor.shape, tensor.dtype) for tensor in tensors[len(positions) :]]
        return tuple(tensor.clone() for tensor in tensors[: len(positions)])

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        worker, invocation, positions = ctx.question
        chosen = {index: to_plain(pull) for index, pull in zip(positions, cotangents, strict=True) if pull is not None}
        try:
            pulled = worker.ask(messages.AskGradients(invocation, chosen), messages.GradientAnswer)
        except (WorkerEnded, KeyError) as error:
            raise LearnerError(f"backward gave no answer: {error}") from None
        if pulled.error:
            raise _exception(pulled.error, pulled.message)
        gradients = [_gradient(pulled.gradients, index, form) for index, form in enumerate(ctx.shapes)]
        return None, None, None, *([None] * len(positions)), *gradients


def _gradient(gradients: list[Any], index: int, form: tuple[torch.Size, torch.dtype]) -> torch.Tensor | None:
    try:
        gradient = from_plain(gradients[index])
    except (IndexError, ValueError):
        return None
    fits = isinstance(gradient, torch.Tensor) and (gradient.shape, gradient.dtype) == form
    return gradient if fits else None


def _replaced(value: Any, joined: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return joined.get(id(value), value)
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, joined) for item in value)
    if type(value) is dict:
        return {key: _replaced(item, joined) for key, item in value.items()}
    return value


def _write_back(argument: Any, now: Any) -> None:
    """Writes into an argument what the learner's function wrote into its copy, as a call in the same process would."""
    if type(argument) is not type(now) and not isinstance(argument, torch.nn.Parameter):
        return
    if isinstance(argument, torch.Tensor) and isinstance(now, torch.Tensor):
        same = (argument.shape, argument.dtype) == (now.shape, now.dtype)
        if same and not torch.equal(argument.detach(), now.detach()):
            argument.detach().copy_(now.detach())
    elif isinstance(argument, numpy.ndarray) and argument.shape == now.shape:
        argument[...] = now
    elif type(argument) is list:
        argument[:] = now
    elif type(argument) in (dict, set):
        argument.clear()
        argument.update(now)


def _exception(name: str, message: str) -> Exception:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, STEERS):
        try:
            return kind(message)
        except TypeError:  # UnicodeDecodeError needs more than a message
            pass
    return LearnerError(f"{name}: {message}")
