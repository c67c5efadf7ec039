"""Subjects: the objects that run a learner's function for a check. The local one runs it in this process."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode

from autograder.check.subject.call_report import Argument, Call, CallProblem, ProgramText, Report, array
from autograder.check.subject.learner_code import normal_form, words
from autograder.tape import record
from autograder.tape.run.function_mode import tensors


class Subject(Protocol):
    """A learner's function or module, here or in another process."""

    def call(self, request: Call) -> Report:
        """Returns what the call did; an exception of the learner's code is part of the report."""
        ...

    def program(self) -> ProgramText:
        """Calls the function without arguments, records it, and returns its outcome."""
        ...


class LocalSubject:
    """Runs a function or an `nn.Module` class that is defined in this process."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target

    def call(self, request: Call) -> Report:
        """Returns what the call did; afterwards modes, dtype, seed and warning filters are restored."""
        with _isolate_state():
            return _Run(self.target, request).report(self.code)

    @functools.cached_property
    def code(self) -> str | None:
        """The answer's normal form; computed once, because an oracle calls its subject hundreds of times."""
        return normal_form(self.target)

    def program(self) -> ProgramText:
        """Returns the outcome of recording the function once, and the words that its code uses."""
        verdict = record(self.target).verdict
        error = f"{verdict.error.type}: {verdict.error.message}" if verdict.error else ""
        return ProgramText(verdict.outcome, error, words(self.target), self.code)


class _Run:
    """One call: new inputs, forward, backward, and the results of both."""

    def __init__(self, target: Callable[..., Any], request: Call) -> None:
        self.target, self.request = target, request
        self.leaves: dict[str, torch.Tensor] = {}
        self.memory: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.others: dict[str, str] = {}

    def report(self, code: str | None) -> Report:
        allocated = _Allocations() if self.request.measure else None
        problem = self._attempt("forward", lambda: self._forward(allocated))
        outputs = {name: array(tensor) for name, tensor in self.outputs.items()}
        after = {name: array(tensor) for name, tensor in self.memory.items()}
        if problem is None and self.request.cotangents:
            problem = self._attempt("backward", self._backward)
        return Report(
            outputs=outputs,
            others=self.others,
            after=after,
            gradients={name: None if leaf.grad is None else array(leaf.grad) for name, leaf in self.leaves.items()},
            shared=self._shared(),
            allocated=allocated.bytes if allocated else None,
            code=code,
            problem=problem,
        )

    def _forward(self, allocations: _Allocations | None) -> None:
        function, options = self._callable()
        arguments = {name: self._fresh(name, argument) for name, argument in self.request.arguments.items()}
        with allocations or contextlib.nullcontext():
            value = function(**arguments, **options)
        _flatten("value", value, self.outputs, self.others)

    def _callable(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        if not isinstance(self.target, type):
            return self.target, self.request.options
        module = self.target(**self.request.options).double()
        if not self.request.differentiate:
            module.requires_grad_(False)  # only then: a module that detached its own weight must be seen as it is
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, values in self.request.parameters.items():
                parameters[name].copy_(values.tensor())
        if self.request.differentiate:
            self.leaves.update(parameters)
        return module, {}

    def _fresh(self, name: str, argument: Argument) -> torch.Tensor:
        tensor = argument.values.tensor()
        if argument.kind != "constant" and self.request.differentiate:
            self.leaves[name] = tensor.requires_grad_()
        if argument.kind == "result":
            tensor = tensor.clone()
        # A name can be rebound and `.data` swapped; the memory that the caller passed in stays reachable from here.
        self.memory[name] = tensor.detach()
        return tensor

    def _backward(self) -> None:
        wanted = {name: self.request.cotangents[name] for name in self.outputs if name in self.request.cotangents}
        pairs = [(self.outputs[name], cotangent.tensor()) for name, cotangent in wanted.items()]
        pairs = [(output, cotangent) for output, cotangent in pairs if output.requires_grad]
        if pairs and all(output.shape == cotangent.shape for output, cotangent in pairs):
            weighted_sum(pairs).backward()

    def _shared(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (output, argument)
            for output, tensor in self.outputs.items()
            for argument, memory in self.memory.items()
            if tensor.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr() != 0
        )

    def _attempt(self, phase: Any, action: Callable[[], None]) -> CallProblem | None:
        try:
            action()
        except (
            Exception,
            KeyboardInterrupt,
        ) as error:  # an endless loop is interrupted, by hand or by a grader's time limit
            line, text = _innermost_line(error, self.target)
            return CallProblem(phase, type(error).__name__, str(error), line, text)
        return None


def weighted_sum(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Returns the real scalar whose gradients equal those of `backward` with these cotangents; shapes must be equal.

    Given cotangents, `backward` loads sympy to compare shapes (PyTorch 2.13): 0.4 s of a process's first check.
    """
    with torch.enable_grad():
        return torch.stack([(output * cotangent.conj()).sum().real for output, cotangent in pairs]).sum()


def _flatten(path: str, value: Any, outputs: dict[str, torch.Tensor], others: dict[str, str]) -> None:
    """Sorts a returned value, nested in tuples, lists and dictionaries, into tensors and the names of other types."""
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


def _innermost_line(error: BaseException, target: Callable[..., Any]) -> tuple[int | None, str]:
    code = getattr(target, "__code__", None) or getattr(getattr(target, "forward", None), "__code__", None)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and frame.filename == code.co_filename:
            return frame.lineno, frame.line or ""
    return None, ""


class _Allocations(TorchFunctionMode):
    """Counts the bytes of every storage that a call from Python returns for the first time.

    A dispatch mode would see temporaries inside an operation too, but the first one in a process imports 800 modules, and
    a learner would wait a second for the answer (measured with PyTorch 2.13).
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._seen: set[int] = set()
        self._kept: list[torch.UntypedStorage] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tensors((args, kwargs)):
            self._see(tensor)
        result = function(*args, **(kwargs or {}))
        for tensor in tensors(result):
            self.bytes += self._see(tensor)
        return result

    def _see(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._seen:
            return 0
        # An address is reused once its storage is freed; holding on to the storage keeps every address unique.
        self._kept.append(storage)
        self._seen.add(storage.data_ptr())
        return storage.nbytes()


@contextlib.contextmanager
def _isolate_state() -> Iterator[None]:
    """Computes in float64, with nothing on stderr, and restores PyTorch's global state afterwards.

    Any text on stderr, a warning of PyTorch's too, would cost a right answer all its points under nbgrader 0.9.6.
    """
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    with warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        torch.set_num_threads(1)  # for a few numbers a second thread only waits: 20 ms per softmax on a busy machine
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            torch.set_num_threads(threads)
