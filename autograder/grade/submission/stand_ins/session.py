"""The trusted side's conversation with the learner's objects during the tests of one submission."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.stand_ins.learner_references import LearnerReferences
from autograder.grade.submission.stand_ins.learners_errors import LearnersErrors
from autograder.grade.submission.stand_ins.looked_up import tie_to_class, tie_to_name
from autograder.grade.submission.stand_ins.refusals import LearnerError, NotPlain
from autograder.grade.submission.stand_ins.remote_gradients import with_history
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.submission.stand_ins.test_names import TestNames
from autograder.grade.wire import messages
from autograder.grade.wire.shared.random_state import draw, random_states
from autograder.grade.wire.shared.shared_folder import SharedFolder
from autograder.grade.wire.shared.test_settings import changed_settings, settings
from autograder.grade.wire.shared.warnings_given import WarningFilters
from autograder.grade.wire.values.array_types import tensors
from autograder.grade.wire.values.codec import Unsendable
from autograder.grade.wire.values.value_table import ValueTable, packed
from autograder.locale.translations import in_english

MOST_SHARED = 300  # values of a test that stay the same objects on both sides; later ones are copies
MOST_SHARED_BYTES = 4 << 20
MOST_ITEMS = (
    20_000  # that a learner's iterators may yield to one test: one without an end would take all the time there is
)
DEEPEST_CALLBACK = 20


class Session:
    """Performs operations on the learner's objects, and keeps what both sides share in step.

    Args:
        worker: the submission's process.
        facts: what the source allows to cross.
        code_of: returns the code of a learner's function by its qualified name.

    Attributes:
        folder: whose files the learner's code shares.
        refusal: why this test cannot be judged here, "" if nothing was refused.
        has_received: whether anything of the learner's has reached this process, in any test.
        wrote_inputs: whether a call has written into an argument of the test's own.
    """

    def __init__(
        self,
        worker: WorkerClient,
        facts: SourceFacts,
        code_of: Callable[[str], types.CodeType | None],
    ) -> None:
        self._facts, self._code_of = facts, code_of
        self._worker, self.folder = worker, SharedFolder(None)
        self._references = LearnerReferences(self, facts, code_of)
        self._depth, self.has_received = 0, False
        self._shared: list[str] = []
        self.begin_test(keep_inputs=False)

    def share_classes(self, namespace: dict[str, Any]) -> None:
        """Shares the classes that the teacher's cells define in a namespace, as soon as they have run."""
        self._references.shared.share(namespace, self._facts.given)

    def begin_test(self, keep_inputs: bool) -> None:
        """Begins a test, which knows no value of an earlier one by number."""
        self.table = ValueTable(self._references)
        self._references.begin_test()
        self.names, self.keep_inputs = TestNames(), keep_inputs
        self.wrote_inputs, self.refusal, self._begins = False, "", True
        self._random_states: list[Any] = []
        self._errors = LearnersErrors()
        self._items = 0
        self._settings, self._filters = settings(), WarningFilters()

    def watch(self, names: TestNames) -> None:
        """Begins to share names, files, and random states if the test sets a seed."""
        self.names = names
        self._random_states = random_states() if names.seeds else []
        self._settings, self._filters = settings(), WarningFilters()
        if names.reads_files and self.folder.is_shared:
            self._synchronise()

    def end_test(self) -> None:
        """Tells the learner's code which names the test has bound or deleted since its last operation.

        Refuses the test if it asked for the bases of a class whose stand-in has not all of them.
        """
        if self.names.asks_for_bases and self._references.lost_bases:
            self.refuse(
                f"{self._references.lost_bases}: not all bases of this class can leave the submission's own process"
            )
        if self.names.has_changed():
            self._synchronise()

    def _synchronise(self) -> None:
        # The test is not running now: what the worker does wrong here, or that it has ended, must not stop the grader.
        with contextlib.suppress(Exception):
            self.operate("synchronise")

    def describe(self, name: str) -> tuple[messages.NameDescription, Any]:
        """Returns what a name of the learner's refers to, and that object or its stand-in.

        Raises:
            WorkerEnded: the program has ended.
            NotPlain: it cannot be sent.
        """
        shared = self._references.shared.present()
        begins = self._begins or shared != self._shared
        self._begins, self._shared = False, shared
        request = messages.AskName(name, len(self.table), begins, shared)
        try:
            found = self._worker.ask(request, messages.NameDescription)
        except KeyError as error:
            raise self.refuse(f"{name}: it gave no answer: {error}") from None
        if found.kind == "absent":
            return found, None
        self.has_received = True
        if found.unsendable:
            raise self.refuse(f"{name}: {found.unsendable}")
        try:
            (value,) = self.table.unpack(found.value)
            tie_to_name(value, name, self._code_of)
        except ValueError as error:
            raise self.refuse(f"{name}: {error}") from None
        return found, value

    def has_only_data(self) -> bool:
        """Returns whether nothing that the test knows can ask for something of the learner's."""
        return self._references.is_empty

    def operate(self, operation: str, *operands: Any) -> Any:
        """Returns what an operation on the learner's objects returns.

        Raises:
            NotPlain: an operand or the result cannot be sent.
            Exception: what the learner's code raised, as an exception of the same class where that cannot steer the test.
        """
        self._references.is_empty = False
        self._items += operation == "__next__"
        if self._items > MOST_ITEMS:
            raise LearnerError(
                in_english("iterators have yielded more than {count} values to this test", count=f"{MOST_ITEMS:,}")
            )
        start, inputs = len(self.table), tensors(operands)
        returned = self._ask(self._request(operation, operands))
        value = self._received(returned)
        self._errors.warn(returned.warnings)
        if returned.raised:
            raise self._raisable(value, operation)
        if operation == "getattr":
            tie_to_class(value, operands[0], operands[1], self._code_of)
        if len(self.table) > MOST_SHARED or self.table.bytes > MOST_SHARED_BYTES:
            self.table.truncate(start)
        invocation = returned.invocation
        return with_history(
            value, returned.differentiable, inputs, lambda positions, found: self._pull(invocation, positions, found)
        )

    def refuse(self, reason: str) -> NotPlain:
        """Returns the exception for what cannot cross, and notes that this test cannot be judged on this side."""
        self.refusal = self.refusal or reason
        return NotPlain(reason)

    def _refuse_handing_over(self, error: Unsendable) -> NotPlain:
        return self.refuse(
            in_english("the test hands {what} to the answer, which is in another process", what=error.what)
        )

    def check_member(self, kind: type, claims: type | None, name: str) -> None:
        """Raises NotPlain if a test may not call this on an object of a learner's class."""
        if claims is not None and hasattr(claims, name):
            return
        short, bases = kind.__name__, [base for base in kind.__mro__ if base.__module__ != "__main__"]
        if not any(self._facts.has_member(known.__name__, bases, name) for known in kind.__mro__):
            raise self.refuse(
                f"{name} of a {short}: no class of the source notebook has it, so it cannot judge the answer"
            )

    def is_learners(self, error: object) -> bool:
        """Returns whether an exception came out of the worker."""
        return error in self._errors

    def _request(self, operation: str, operands: tuple[Any, ...]) -> messages.AskOperation:
        if (
            not self._depth
        ):  # else the learner's code is still at work on what it was given, and has called a test's function
            self.table.put_back()
        start, changed = len(self.table), self.names.changed()
        try:
            values = self.table.pack(
                operands, self._sendable(changed), self._seeded(), changed_settings(self._settings)
            )
        except Unsendable as error:
            raise self._refuse_handing_over(error) from None
        return messages.AskOperation(operation, values, start, self.folder.changed(), self._filters.have_changed())

    def _sendable(self, names: dict[str, Any]) -> dict[str, Any]:
        """Returns the names whose values can be sent; the others, such as an object of the test's, stay on this side."""
        found = {}
        for name, action in names.items():
            try:
                ValueTable(self._references).pack(action)
                found[name] = action
            except Unsendable:
                found |= self.names.leave(name)
        return found

    def _seeded(self) -> list[Any]:
        """Returns the states of the random generators if the test has changed them.

        Only a test that sets a seed shares them: the states tell which inputs other tests will draw.
        """
        if not self.names.seeds:
            return []
        now = random_states()
        before, self._random_states = self._random_states, now
        return now if packed(before) != packed(now) else []

    def _received(self, returned: messages.Returned) -> Any:
        self.has_received = True
        sys.stdout.write(returned.printed)
        if returned.drew and self.names.seeds:
            draw()
            self._random_states = random_states()
        if returned.unsendable:
            raise self.refuse(returned.unsendable)
        self.folder.write(returned.files)
        try:
            value, names = self.table.unpack(returned.value, self._may_change)
        except ValueError as error:
            raise self.refuse(str(error)) from None
        if type(names) is dict:
            self.names.receive(names)
        return value

    def _may_change(self, number: int) -> bool:
        if number not in self.table.own:
            return True
        self.wrote_inputs = True
        return not self.keep_inputs

    def _raisable(self, error: Any, operation: str) -> BaseException:
        if isinstance(error, BaseException) and self.table.number(error) in self.table.own:
            return error  # what a function of the test's raised, when the learner's code called it
        return self._errors.raisable(error, operation)

    def _pull(self, invocation: int, positions: list[int], cotangents: list[torch.Tensor]) -> Any:
        start = len(self.table)
        values = self.table.pack(positions, cotangents)
        returned = self._ask(messages.AskGradients(invocation, values, start))
        found = self._received(returned)
        if returned.raised:
            raise self._raisable(found, "backward")
        return found

    def _ask(self, request: messages.Request) -> messages.Returned:
        try:
            return self._worker.ask(request, messages.Returned, self._call_back)
        except WorkerEnded as error:
            raise LearnerError(in_english("its process was ended: {reason}", reason=str(error))) from None
        except KeyError as error:
            raise LearnerError(in_english("it gave no answer: {reason}", reason=str(error))) from None

    def _call_back(self, asked: messages.CallbackAsked) -> messages.CallbackReturned:
        self._depth += 1
        try:
            return self._answer(self._called(asked))
        except Exception as error:  # noqa: BLE001 - it is raised in the learner's code, which may expect it
            return self._answer(error, raised=True)
        finally:
            self._depth -= 1

    def _answer(self, value: Any, *, raised: bool = False) -> messages.CallbackReturned:
        start = len(self.table)
        return messages.CallbackReturned(self.table.pack(value), start, raised)

    def _called(self, asked: messages.CallbackAsked) -> Any:
        if self._depth > DEEPEST_CALLBACK:
            raise RecursionError(f"more than {DEEPEST_CALLBACK} calls of the test's functions inside each other")
        try:
            arguments, keywords = self.table.unpack(asked.arguments, self._may_change)
            function = self._references.callback(asked.callback)
        except (ValueError, KeyError, TypeError) as error:
            raise self.refuse(f"a call of the test's function: {error}") from None
        try:
            value = function(*arguments, **keywords)
            ValueTable(self._references).pack(value)
            return value
        except Unsendable as error:
            raise self._refuse_handing_over(error) from None
