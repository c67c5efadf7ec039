"""The submission's own process: runs its cells, keeps its names, and answers the grader's questions about them.

Everything here shares a process with untrusted code. It has no expected value, no hidden test and no seed, and the trusted
side checks whatever it answers.
"""

from __future__ import annotations

import inspect
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch

from autograder.check.subject.call_report import CallProblem, ProgramText, Report
from autograder.check.subject.subjects import LocalSubject, weighted_sum
from autograder.grade.sandbox.shell import CellTimeoutError, Shell, cell_time_limit
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MEBIBYTE
from autograder.grade.wire.outputs import Outputs
from autograder.grade.wire.wire_values import Unsendable, from_plain, tensors, to_plain

LARGEST_QUESTION = 256 * MEBIBYTE
PRINTED = MEBIBYTE // 4  # bytes that are kept of what a function prints while an assertion calls it


def serve(connection: socket.socket, shell: Shell, folder: Path) -> None:
    """Answers questions until the grader closes the connection. `folder` is where the cells run."""
    _Worker(connection, shell, folder).serve()


class _Worker:
    def __init__(self, connection: socket.socket, shell: Shell, folder: Path) -> None:
        self.connection, self.shell, self.folder = connection, shell, folder
        self.process = os.getpid()
        self.cell_seconds = 30.0
        self.answers: dict[type, Callable[[Any], messages.Answer]] = {
            messages.BeginSubmission: self._begin,
            messages.RunCell: self._run,
            messages.AskName: self._describe,
            messages.AskCall: self._call,
            messages.AskProgram: self._program,
            messages.AskInvocation: self._invoke,
            messages.AskGradients: self._pull,
        }
        self.invocations: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []

    def serve(self) -> None:
        while True:
            try:
                question = receive(self.connection, messages.Question, largest=LARGEST_QUESTION)
                send(self.connection, messages.Reply(question.number, self._answer(question.request)))
            except ChannelError:
                return

    def _answer(self, request: messages.Request) -> messages.Answer:
        try:
            answer = self.answers[type(request)](request)
        except (Exception, CellTimeoutError, KeyboardInterrupt) as error:
            answer = messages.Failure(f"{type(error).__name__}: {error}"[:2000])
        if os.getpid() != self.process:
            os._exit(0)  # a cell forked and its child returned from it: the child must not answer
        return answer

    def _begin(self, request: messages.BeginSubmission) -> messages.Answer:
        for name, data in request.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        sys.path.insert(0, "")  # modules beside the notebook can be imported, as in a kernel
        self.cell_seconds = request.cell_seconds
        self.shell.outputs = Outputs(request.output_bytes)
        return messages.NameDescription("absent")

    def _run(self, request: messages.RunCell) -> messages.Answer:
        ran = self.shell.run(request.text, self.cell_seconds)
        return messages.CellOutputs(msgspec.json.encode(ran.outputs), ran.execution_count)

    def _describe(self, request: messages.AskName) -> messages.Answer:
        if request.name not in self.shell.user_ns:
            return messages.NameDescription("absent")
        value = self.shell.user_ns[request.name]
        if inspect.isclass(value):
            return messages.NameDescription("class", value.__name__)
        if callable(value):
            return messages.NameDescription("function", type(value).__name__)
        try:
            return messages.NameDescription("data", type(value).__name__, to_plain(value))
        except Unsendable as error:
            return messages.NameDescription("other", type(value).__name__, str(error))

    def _target(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def _call(self, request: messages.AskCall) -> messages.Answer:
        try:
            with self.shell.separate_outputs(0), cell_time_limit(self.cell_seconds):
                return messages.CallAnswer(LocalSubject(self._target(request.name)).call(request.call))
        except CellTimeoutError as error:
            return messages.CallAnswer(Report(problem=CallProblem("forward", "CellTimeoutError", str(error))))

    def _program(self, request: messages.AskProgram) -> messages.Answer:
        try:
            with self.shell.separate_outputs(0), cell_time_limit(self.cell_seconds):
                return messages.ProgramAnswer(LocalSubject(self._target(request.name)).program())
        except CellTimeoutError as error:
            return messages.ProgramAnswer(ProgramText("raises-forward", f"CellTimeoutError: {error}", (), None))

    def _invoke(self, request: messages.AskInvocation) -> messages.Answer:
        target = self._target(request.name)
        arguments = [from_plain(argument) for argument in request.arguments]
        keywords = {name: from_plain(argument) for name, argument in request.keywords.items()}
        inputs = [getattr(tensor, "origin", tensor) for tensor in tensors([arguments, keywords])]
        with self.shell.separate_outputs(PRINTED) as outputs:
            try:
                with cell_time_limit(self.cell_seconds):
                    value = target(*arguments, **keywords)
                    value = list(value) if inspect.isgenerator(value) else value
            except (Exception, CellTimeoutError) as error:
                return messages.ReturnValue(
                    error=type(error).__name__, message=str(error)[:2000], printed=outputs.text()
                )
        try:
            return self._returned(value, arguments, keywords, inputs, outputs.text())
        except Unsendable as error:
            return messages.ReturnValue(unsendable=str(error), printed=outputs.text())

    def _returned(
        self, value: Any, arguments: list[Any], keywords: dict[str, Any], inputs: list[torch.Tensor], printed: str
    ) -> messages.Answer:
        outputs = tensors(value)
        self.invocations.append((inputs, outputs))
        return messages.ReturnValue(
            value=to_plain(value),
            arguments=[to_plain(argument) for argument in arguments],
            keywords={name: to_plain(argument) for name, argument in keywords.items()},
            invocation=len(self.invocations) - 1,
            differentiable=[index for index, tensor in enumerate(outputs) if tensor.requires_grad],
            printed=printed,
        )

    def _pull(self, request: messages.AskGradients) -> messages.Answer:
        inputs, outputs = self.invocations[request.invocation]
        chosen = {index: from_plain(cotangent) for index, cotangent in request.cotangents.items()}
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        try:
            with self.shell.separate_outputs(0), cell_time_limit(self.cell_seconds):
                scalar = weighted_sum([(outputs[index], cotangent) for index, cotangent in chosen.items()])
                found = torch.autograd.grad(scalar, wanted, allow_unused=True, retain_graph=True)
        except (Exception, CellTimeoutError) as error:
            return messages.GradientAnswer(error=type(error).__name__, message=str(error)[:2000])
        gradients = iter(found)
        return messages.GradientAnswer(
            [to_plain(next(gradients)) if tensor.requires_grad else None for tensor in inputs]
        )


def forget_the_server() -> None:
    """Resets the command-line arguments and NumPy's random state, which a fork inherits from the server."""
    sys.argv[:] = [""]
    if numpy := sys.modules.get("numpy"):
        # A fork inherits NumPy's state. Python reseeds `random` itself, and torch starts with one fixed seed in every process.
        numpy.random.seed()
