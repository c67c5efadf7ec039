"""Subjects: objects that run a student's function for a check. The local one runs it in this process."""

from __future__ import annotations

import contextlib
import functools
import io
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Protocol, TextIO

import msgspec
import torch
from torch.overrides import TorchFunctionMode

from autograder.check.subject.call_report import Allocation, Argument, Call, CallProblem, ProgramText, Report, array
from autograder.check.subject.learner_code import functions_used, line_of, normal_form, own_function, words
from autograder.errors import message_of
from autograder.locale.translations import translated
from autograder.tape import record
from autograder.tape.explain import record_program
from autograder.tape.oracle.excerpt import Scope
from autograder.tape.oracle.finite_differences import weighted_sum
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.budget import Budget, current_budget
from autograder.tape.run.finished_run import is_out_of_time
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError, code_of
from autograder.tape.run.time_limit import TimeUp, time_limit

MOST = 4_000
"""Characters that one run of an answer may print. Jupyter stops all output of a kernel at one megabyte per second (server 2.17)."""


class TruncatedOutput(io.TextIOBase):
    """A text stream that passes on the first `MOST` characters."""

    def __init__(self, shown: TextIO) -> None:
        self._shown, self._written = shown, 0

    def write(self, text: str) -> int:
        """Pass on the text up to the limit; at the limit, write once that the rest is left out."""
        fits = max(MOST - self._written, 0)
        if self._written <= MOST < self._written + len(text):
            self._shown.write(f"{text[:fits]}\n{translated('… the rest of what this prints is left out.')}\n")
        elif fits:
            self._shown.write(text)
        self._written += len(text)
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._shown.flush()


@contextlib.contextmanager
def truncate_output() -> Iterator[None]:
    """Limit the output of the block, and send its stderr to stdout: text on stderr costs all points (nbgrader 0.9.6)."""
    output = TruncatedOutput(sys.stdout)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield


SECONDS, ALL_RUNS = 2.0, 6.0
"""Time limits for one run and for all runs together, in seconds. They are short because a picture is only help."""


class Allocations(TorchFunctionMode):
    """Records every storage that a call from Python returns for the first time.

    A dispatch mode would also see temporaries inside an operation, but the first one in a process imports 800 modules,
    which takes a second (measured with PyTorch 2.13).
    """

    def __init__(self, target: Callable[..., Any]) -> None:
        super().__init__()
        self.made: list[Allocation] = []
        self._target = target
        self._seen: set[int] = set()
        self._kept: list[torch.UntypedStorage] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tensors((args, kwargs)):
            self._see(tensor)
        result = function(*args, **(kwargs or {}))
        for tensor in tensors(result):
            if nbytes := self._see(tensor):
                frames = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe()))
                self.made.append(Allocation(nbytes, *line_of(self._target, list(reversed(frames)))))
        return result

    def _see(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._seen:
            return 0
        # An address is reused after its storage is freed; keeping the storage alive makes every address unique.
        self._kept.append(storage)
        self._seen.add(storage.data_ptr())
        return storage.nbytes()


class Subject(Protocol):
    """A student's function or module, in this process or another."""

    def call(self, request: Call) -> Report:
        """Return the results of a call; an exception of the student's code is part of the report."""

    def program(self) -> ProgramText:
        """Call and record the function without arguments, and return its outcome."""

    def program_recording(self) -> Recording | None:
        """Return the recording that `program` made; None if it ran in another process."""

    def recording(self, request: Call, knows_gradients: bool = False) -> Recording | None:
        """Return the recording of such a call, or None. With `knows_gradients`, the right gradients are known and not computed."""

    def uses(self, function: Callable[..., Any]) -> bool:
        """Return whether the answer is this function of the check, or calls it."""


class LocalSubject:
    """Runs a function or an `nn.Module` class of this process, with a time limit for a call's forward and its backward."""

    def __init__(self, target: Callable[..., Any], seconds: float | None = None) -> None:
        self.target, self.seconds = target, seconds
        self._program: Recording | None = None

    def call(self, request: Call) -> Report:
        """Return the results of a call, and restore modes, dtype, seed and warning filters."""
        return msgspec.structs.replace(self.report(request), code=self.code, words=self.words)

    def report(self, request: Call) -> Report:
        """Return the same without the answer's code, which a grader reads from the notebook."""
        with _isolate_state():
            return _Run(self.target, request, self.seconds).report()

    @functools.cached_property
    def code(self) -> str | None:
        """The answer's normal form; computed once, because an oracle calls its subject hundreds of times."""
        return normal_form(self.target)

    @functools.cached_property
    def words(self) -> tuple[str, ...]:
        """Every name and attribute that the answer uses."""
        return words(self.target)

    def uses(self, function: Callable[..., Any]) -> bool:
        """Return whether the answer is this function, or calls it by one of the notebook's names."""
        return self.target is function or function in functions_used(self.target)

    def program(self) -> ProgramText:
        """Record the function once, and return the outcome and the names that its code uses."""
        limit = nullcontext() if self.seconds is None else Budget(self.seconds).active()
        try:
            with truncate_output(), limit:
                self._program = record(self.target)
        except ProgramError as error:
            if self.seconds is None or not is_out_of_time(error):
                raise
            beginning = error.recording.steps if isinstance(error.recording, Recording) else ()
            place = beginning[-1].place if beginning else Place("", 0, "")
            reason = str(_too_long(self.seconds)())
            return ProgramText("", reason, self.words, self.code, place.line, place.text)
        verdict = self._program.verdict
        raised = f"{verdict.error.type}: {verdict.error.message}" if verdict.error else ""
        return ProgramText(verdict.outcome, raised, self.words, self.code)

    def program_recording(self) -> Recording | None:
        """Return the recording that `program` made; None before that."""
        return self._program

    def recording(self, request: Call, knows_gradients: bool = False) -> Recording | None:
        """Return the recording of such a call, with new inputs in each run; None if it cannot be repeated or has no source."""
        try:
            code = code_of(own_function(self.target))
            text = "".join(linecache.getlines(code.co_filename))
            program = Program(
                "your answer",
                text,
                lambda _backwards: _Run(self.target, request).gradients(),
                code.co_filename,
                (self.target,),
            )
            with _isolate_state(), Budget(min(ALL_RUNS, current_budget().left)).active():
                scope = Scope(knows_gradients=knows_gradients, has_run=True)
                return record_program(program, SECONDS, scope) if text else None
        except ProgramError as error:
            return error.recording if isinstance(error.recording, Recording) else None


class _Run:
    """One call: new inputs, forward, backward, and the results of both."""

    def __init__(self, target: Callable[..., Any], request: Call, seconds: float | None = None) -> None:
        self.target, self.request = target, request
        self.limit = nullcontext if seconds is None else functools.partial(time_limit, seconds, _too_long(seconds))
        self.leaves: dict[str, torch.Tensor] = {}
        self.passed: dict[str, torch.Tensor] = {}
        self.memory: dict[str, torch.Tensor] = {}
        self.parameters: tuple[str, ...] = ()
        self.outputs: dict[str, torch.Tensor] = {}
        self.others: dict[str, str] = {}

    def report(self) -> Report:
        allocated = Allocations(self.target) if self.request.measure else None
        problem = self._attempt("forward", lambda: self._forward(allocated))
        outputs = {name: array(tensor) for name, tensor in self.outputs.items()}
        after = {name: array(tensor) for name, tensor in self.memory.items()}
        if problem is None and (self.request.cotangents or self.request.memory_cotangents):
            problem = self._attempt("backward", self._backward)
        return Report(
            outputs=outputs,
            others=self.others,
            after=after,
            gradients={name: None if leaf.grad is None else array(leaf.grad) for name, leaf in self.leaves.items()},
            parameters=self.parameters,
            allocated=tuple(allocated.made) if allocated else None,
            problem=problem,
        )

    def gradients(self) -> dict[str, torch.Tensor | None]:
        """Run forward and backward, and return the gradient of each leaf; exceptions are raised to the caller."""
        self._forward(None)
        self._backward()
        return {name: leaf.grad for name, leaf in self.leaves.items()}

    def _forward(self, allocations: Allocations | None) -> None:
        function, options = self._callable()
        arguments = {name: self._new_argument(name, argument) for name, argument in self.request.arguments.items()}
        with allocations or contextlib.nullcontext():
            value = function(**arguments, **options)
        _flatten("value", value, self.outputs, self.others)

    def _callable(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        if not isinstance(self.target, type):
            return self.target, self.request.options
        if not issubclass(self.target, torch.nn.Module):
            raise TypeError(f"{self.target.__name__} is not an nn.Module")
        module = self.target(**self.request.options).double()
        if not self.request.differentiate:
            module.requires_grad_(False)  # only then: checked as it is if it detached its own weight
        module.train(self.request.training)
        parameters = dict(module.named_parameters())
        self.parameters = tuple(parameters)
        with torch.no_grad():
            for name in self.request.parameters.keys() & parameters.keys():
                parameters[name].copy_(self.request.parameters[name].tensor())
        if self.request.differentiate:
            self.leaves.update(parameters)
        return module, {}

    def _new_argument(self, name: str, argument: Argument) -> torch.Tensor:
        tensor = argument.values.tensor()
        if argument.kind != "constant" and self.request.differentiate:
            self.leaves[name] = tensor.requires_grad_()
        if argument.kind == "result":
            tensor = tensor.clone()
        self.passed[name] = tensor
        # The answer may rebind a name or replace `.data`; this refers to the memory that the caller passed in.
        self.memory[name] = tensor.detach()
        return tensor

    def _backward(self) -> None:
        returned = [(self.outputs.get(name), cotangent) for name, cotangent in self.request.cotangents.items()]
        left = [(self.passed.get(name), cotangent) for name, cotangent in self.request.memory_cotangents.items()]
        pairs = [(tensor, cotangent.tensor()) for tensor, cotangent in [*returned, *left] if tensor is not None]
        # An output that does not require grad changes no gradient, but the recording shows that its values were returned.
        fits = all(output.shape == cotangent.shape for output, cotangent in pairs)
        if fits and any(output.requires_grad for output, _ in pairs):
            weighted_sum(pairs).backward()

    def _attempt(self, phase: Any, action: Callable[[], None]) -> CallProblem | None:
        try:
            with self.limit():
                action()
        except (
            Exception,
            TimeUp,
            KeyboardInterrupt,  # an endless loop is interrupted by hand, or by a grader's time limit
            SystemExit,  # raised if an answer calls exit
        ) as error:
            line, text = line_of(self.target, traceback.extract_tb(error.__traceback__))
            return CallProblem(phase, type(error).__name__, message_of(error), line, text)
        return None


def _too_long(seconds: float) -> Callable[[], TimeUp]:
    """Return a function that creates the exception for a call that took too long."""
    return lambda: TimeUp(translated("stopped after {seconds} seconds", seconds=f"{seconds:g}"))


def _flatten(path: str, value: Any, outputs: dict[str, torch.Tensor], others: dict[str, str]) -> None:
    """Sort a returned value, nested in tuples, lists and dictionaries, into tensors and the type names of other objects."""
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{path}[{key!r}]", item, outputs, others)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _flatten(f"{path}[{index}]", item, outputs, others)
    elif isinstance(value, (torch.Tensor, bool, int, float)):
        outputs[path] = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    else:
        others[path] = type(value).__name__


@contextlib.contextmanager
def _isolate_state() -> Iterator[None]:
    """Compute in float64, with nothing on stderr, and restore PyTorch's global state afterwards.

    Any text on stderr, including a warning of PyTorch, would cost a right answer all its points under nbgrader 0.9.6.
    """
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    with warnings.catch_warnings(), truncate_output(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        torch.set_num_threads(1)  # with so few numbers, a second thread only waits: 20 ms per softmax on a busy machine
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            torch.set_num_threads(threads)
