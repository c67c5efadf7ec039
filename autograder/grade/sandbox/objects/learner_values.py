"""Answers the grader's questions about the learner's names and objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from autograder.grade.sandbox.objects.module_patches import ModulePatches
from autograder.grade.sandbox.objects.object_table import ObjectTable
from autograder.grade.sandbox.objects.operations import perform
from autograder.grade.sandbox.shell import Shell
from autograder.grade.wire import messages
from autograder.grade.wire.shared.random_state import random_states, set_random_states
from autograder.grade.wire.shared.shared_folder import SharedFolder
from autograder.grade.wire.shared.test_settings import settings_in_force
from autograder.grade.wire.shared.warnings_given import warnings_kept
from autograder.grade.wire.values.array_types import tensors
from autograder.grade.wire.values.codec import Unsendable
from autograder.grade.wire.values.message_form import Values
from autograder.grade.wire.values.value_table import ValueTable, packed

DELETED, RESTORED = "deleted", "restored"


class LearnerValues:
    """The learner's names and objects, as the grader sees them.

    Args:
        shell: holds the names.
        exchange: sends an answer that asks back, and returns what was answered.
        folder: where the learner's code writes files.
    """

    def __init__(self, shell: Shell, exchange: Callable[[messages.CallbackAsked], Any], folder: SharedFolder) -> None:
        self.shell, self._exchange, self.folder = shell, exchange, folder
        self.cell_seconds = 30.0
        self._objects = ObjectTable(self._call_back)
        self.table = ValueTable(self._objects)
        self._invocations: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
        self._known: dict[str, Any] = {}
        self._replaced: dict[str, Any] = {}
        self._patches = ModulePatches()

    def describe(self, request: messages.AskName) -> messages.NameDescription:
        """Says what a name refers to."""
        if request.begins:
            self._known, self._replaced = {}, {}
            self._objects.shared.share(self.shell.user_ns, request.shared)
        if request.name not in self.shell.user_ns:
            return messages.NameDescription("absent")
        value = self.shell.user_ns[request.name]
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        type_name = type(value).__name__[:100]
        if request.start is None:
            return messages.NameDescription(kind, type_name)
        self.table.truncate(request.start)
        self._known[request.name] = value
        try:
            return messages.NameDescription(kind, type_name, self._packed(value))
        except Unsendable as error:
            return messages.NameDescription("other", type_name, unsendable=str(error)[: messages.LONGEST_REASON])

    def operate(self, request: messages.AskOperation) -> messages.Returned:
        """Performs an operation."""
        self.table.truncate(request.start)
        operands, names, random_states_sent, changed_settings = self.table.unpack(request.operands)
        self._bind(names)
        set_random_states(random_states_sent)
        self.folder.write(request.files)
        inputs = [getattr(tensor, "origin", tensor) for tensor in tensors(operands)]
        with (
            self.shell.separate_outputs(messages.LONGEST_PRINT) as outputs,
            warnings_kept(request.hears_warnings) as given,
            settings_in_force(changed_settings),
        ):
            value, raised = self._guarded(lambda: perform(request.operation, operands))
        drew = bool(random_states_sent) and packed(random_states()) != packed(random_states_sent)
        returned = self._returned(value, raised, inputs, outputs.text())
        return msgspec.structs.replace(returned, drew=drew, warnings=given)

    def pull(self, request: messages.AskGradients) -> messages.Returned:
        """Runs backward, which also adds to the gradients of the learner's own leaves."""
        self.table.truncate(request.start)
        positions, cotangents = self.table.unpack(request.cotangents)
        inputs, outputs = self._invocations[request.invocation]
        chosen = [outputs[position] for position in positions]
        with self.shell.separate_outputs(messages.LONGEST_PRINT) as printed:
            value, raised = self._guarded(lambda: _gradients(inputs, chosen, cotangents))
        return self._returned(value, raised, [], printed.text())

    def _guarded(self, action: Callable[[], Any]) -> tuple[Any, bool]:
        try:
            with self.shell.time_limit(self.cell_seconds), self._patches.applied():
                return action(), False
        except BaseException as error:  # noqa: BLE001 - what a learner's code raises ends its call, and not its process
            return error, True

    def _returned(self, value: Any, raised: bool, inputs: list[torch.Tensor], printed: str) -> messages.Returned:
        outputs = [] if raised else tensors(value)
        results = [index for index, tensor in enumerate(outputs) if tensor.requires_grad and not tensor.is_leaf]
        if results:
            self._invocations.append((inputs, outputs))
        try:
            values = self._packed(value, self._rebound())
        except Unsendable as error:
            return messages.Returned(unsendable=str(error)[: messages.LONGEST_REASON], printed=printed)
        number = len(self._invocations) - 1
        return messages.Returned(values, raised, number, results, printed, files=self.folder.changed())

    def _packed(self, value: Any, *others: Any) -> Values:
        """Returns the values for the grader.

        Raises:
            Unsendable: one cannot be sent, or cannot be read at all: a tensor expanded to more than memory holds, or what
                claims to be of a class that it is not of.
        """
        try:
            return self.table.pack(value, *others)
        except Unsendable:
            raise
        except Exception as error:
            raise Unsendable(
                value, f"a {type(value).__name__[:100]} that cannot be read ({type(error).__name__})"
            ) from None

    def _rebound(self) -> dict[str, Any]:
        """Returns the names that the learner's code has bound again since the test looked them up."""
        space = self.shell.user_ns
        changed = {
            name: space[name] for name, value in self._known.items() if name in space and space[name] is not value
        }
        self._known |= changed
        return changed

    def _bind(self, names: dict[str, Any]) -> None:
        """Binds and deletes names as the test did, and replaces attributes of modules."""
        for name, (action, value) in names.items():
            if "." in name and action == DELETED:
                self._patches.take_back(name)
            elif "." in name:
                self._patches.put(name, value)
            else:
                self._bind_name(name, action, value)

    def _bind_name(self, name: str, action: str, value: Any) -> None:
        """Binds or deletes one name; what a test puts back is the object that stood here, and no stand-in for the test's own."""
        space = self.shell.user_ns
        if action == RESTORED:
            action, value = self._replaced.pop(name, (DELETED, None))
        elif name not in self._replaced:
            self._replaced[name] = ("bound", space[name]) if name in space else (DELETED, None)
        if action == DELETED:
            space.pop(name, None)
            self._known.pop(name, None)
        else:
            space[name] = self._known[name] = value

    def _call_back(self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        answer = self._exchange(messages.CallbackAsked(number, self.table.pack(arguments, keywords)))
        self.table.truncate(answer.start)
        (value,) = self.table.unpack(answer.value)
        if answer.raised:
            raise value
        return value


def _gradients(
    inputs: list[torch.Tensor], outputs: list[torch.Tensor], cotangents: list[torch.Tensor]
) -> list[torch.Tensor | None]:
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    before = [tensor.grad for tensor in wanted]
    for tensor in wanted:
        tensor.grad = None
    try:
        torch.autograd.backward(outputs, cotangents, retain_graph=True)
        return [tensor.grad if tensor.requires_grad else None for tensor in inputs]
    finally:
        for tensor, gradient in zip(wanted, before, strict=True):
            tensor.grad = gradient
