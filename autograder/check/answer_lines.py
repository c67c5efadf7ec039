"""The lines of an answer compared with those of the original program: the student has to return to what was changed."""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from autograder.check.named_lines import function_steps, name_at, return_statement
from autograder.check.subject.learner_code import own_function
from autograder.locale.messages import Message
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Harm, NamedLine, Place

OUT_OF_PLACE = {name for name in dir(torch.Tensor) if hasattr(torch.Tensor, f"{name}_")} - {"requires_grad"} | {"clone"}
"""Methods of a tensor that return a tensor and leave it as it is: those with a second form that writes, and clone."""

VIEWS = {"detach", "view", "t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze", "as_strided", "view_as"}
"""Methods whose result shares the memory of the tensor."""


_WRITES = re.compile(r"\w_\(|[+*/-]= |^\w+\[.*\] = ")


@dataclass(frozen=True)
class AnswerLines:
    """The lines of one recorded answer."""

    recording: Recording  # the recording of the answer
    # the lines of the original program, as `lines_of` returns them; () for a task without one
    original: tuple[str, ...] = ()
    written: tuple[str, ...] = ()  # the arguments that the task requires to modify

    @cached_property
    def texts(self) -> dict[int, str]:
        """The lines of the answer by number."""
        outer = [step.function for step in self.recording.steps if step.depth == 0]
        return numbered_lines(self.recording.programs[0].source, outer[0].partition(".")[0] if outer else "")

    @cached_property
    def _replaced(self) -> dict[int, tuple[str, ...]]:
        """Changed line → the lines of the original program that it and its changed neighbors replace."""
        numbers, texts = list(self.texts), list(self.texts.values())
        parts = difflib.SequenceMatcher(None, self.original, texts, autojunk=False).get_opcodes()
        return {
            numbers[at]: self.original[first:last]
            for kind, first, last, start, stop in (parts if self.original else ())
            for at in range(start, stop)
            if kind != "equal"
        }

    @cached_property
    def changed(self) -> tuple[int, ...]:
        """The numbers of the lines that the original program does not have in this order; () without an original."""
        return tuple(self._replaced)

    def replaced_write(self) -> NamedLine | None:
        """Return the first changed line that replaces a line with an in-place modification, or None."""
        lines = (number for number, before in self._replaced.items() if any(map(_WRITES.search, before)))
        line = next(lines, None)
        message = Message("answer.original_writes_here|the original program has a line here that writes into memory")
        return None if line is None else self._place(line, message)

    @cached_property
    def _relevant(self) -> tuple[int, ...]:
        """The changed lines without those that only bind a name that no line reads."""
        read = {name for text in self.texts.values() for name in names_read(text)}
        unread = {number for number in self.changed if (bound := _name_bound(self.texts[number])) and bound not in read}
        return tuple(number for number in self.changed if number not in unread)

    def dropped(self) -> NamedLine | None:
        """Return the last line whose result is thrown away, or None; lines of the original program do not count."""
        lines = [number for number in self.changed or self.texts if is_thrown_away(self.texts[number])]
        return self.describe(lines[-1]) if lines else None

    def before(self, line: int) -> NamedLine | None:
        """Return the changed line that a message about an unchanged line names first, or None.

        It is a line whose result is thrown away; else the last changed line before the named one, or the first one.
        """
        dropped = self.dropped()
        if dropped is not None:
            return dropped if dropped.place.line != line else None
        if not self.changed or line in self.changed or self._is_in_changed_block(line):
            return None
        ran = {step.place.line for step in self.recording.steps}
        later = next((number for number in self.changed if number in ran), None)  # in a loop, it ran before the line
        first = max((number for number in self.changed if number < line), default=later)
        return self.describe(first) if first is not None else None

    def other_return(self, path: str) -> NamedLine | None:
        """Return the return line if it returns a name of the original program that the original does not return there.

        `path` is the position in the returned object, such as "value[0]".
        """
        returned = return_statement(self.recording)
        name = name_at(returned[1], path) if returned else ""
        ends = [node.value for text in self.original if isinstance(node := _statement(text), ast.Return)]
        is_known = any(name.partition(".")[0] in names_read(text) for text in self.original)
        if returned is None or not ends or not is_known or any(name_at(end, path) == name for end in ends):
            return None
        return NamedLine(returned[0].place, Message("line.gets_values|{name} gets its values here", name=path))

    def last_changed(self) -> NamedLine | None:
        """Return the line whose result is thrown away, else the last changed line; or None."""
        return self.dropped() or (self.describe(self.changed[-1]) if self.changed else None)

    def cause_of(self, harm: Harm) -> NamedLine | None:
        """Return the line because of which a modification is harmful that the task requires or the original has, or None.

        It is the line that bound the modified name to the saved memory, else the line whose operation saved the tensor.
        """
        write, saved = harm.mutated_at[0].line, harm.saved_at.line
        names = [harm.tensor, harm.through or "", target_of(self.texts.get(write, ""))]
        is_required = bool(harm.mutated_at[0].text and harm.version_now != harm.saved_version) and any(
            name in self.written for name in names
        )
        if not self.original:
            return self._cause_without_original(write, saved, names, is_required)
        lines = [line for line in self._relevant if not self.texts[line].startswith(("with ", "for ", "if "))]
        if write in self.changed or self._is_in_changed_block(write):
            lines = [line for line in lines if line < write and is_alias(self.texts[line])]
            names, saved, is_required = names[-1:], 0, False
        bound = [line for name in names for line in lines if self._binds(line, name)]
        bound = [line for line in bound if is_required or line not in (saved, *range(write, write + 1000))]
        if bound:
            return self.describe(bound[0])
        if is_required and not lines:
            return self.describe(
                saved, Message("answer.saves_tensor|this line saves {tensor} for backward", tensor=harm.tensor)
            )
        if saved in lines and (is_required or not any(self._binds(saved, name) for name in names)):
            return self.describe(saved)
        before = [line for line in lines if line < write] or lines
        return self.describe(before[-1]) if before and is_required else None

    def _cause_without_original(self, write: int, saved: int, names: list[str], is_required: bool) -> NamedLine | None:
        lines = [line for line in self.texts if line < write and line != saved and is_alias(self.texts[line])]
        read = names_read(self.texts.get(saved, "")) if is_required else names
        bound = [line for name in read for line in lines if self._binds(line, name)]
        if bound:
            return self.describe(bound[0])
        message = Message("answer.saves_tensor|this line saves {tensor} for backward", tensor=names[0])
        return self.describe(saved, message) if is_required and saved in self.texts else None

    def mistimed_write(self, line: int) -> NamedLine | None:
        """Return a write into memory that the line reads, if it comes at another time than in the original; or None.

        Without an original, a write before the line counts if the task requires it, and a write after the line always.
        """
        steps = function_steps(self.recording)
        at = next((step.index for step in steps if step.place.line == line), None)
        storages = {tensor.id: tensor.storage for tensor in self.recording.tensors}
        read = self._transitive_names_read(line)
        bound: dict[str, int | None] = {}
        for step in self.recording.steps[: at or 0]:
            bound |= {change.name: change.tensor for change in step.names}
        memory = {storages[tensor] for name, tensor in bound.items() if name in read and tensor in storages}
        for step in steps if at is not None else ():
            if step.place.line == line or not any(
                write.storage in memory and write.bytes_changed for write in step.writes
            ):
                continue
            is_before = step.place.line < line  # by lines, because a loop runs each before and after the other
            if self._is_other_order(step.place.line, line, is_before):
                return self._mistimed(step.place.line, line, is_before)
        return None

    def describe(self, number: int, sentence: str = "") -> NamedLine:
        """Return a line of the answer with a true statement about it."""
        text = self.texts[number]
        if is_thrown_away(text):
            sentence = Message("answer.result_thrown_away|its result is thrown away: no name refers to it")
        elif number in self.changed and number not in self._relevant:
            sentence = Message("answer.name_not_read|no line of the answer reads {name}", name=_name_bound(text))
        elif is_alias(text) and not sentence:
            sentence = Message("answer.same_memory_no_copy|another name for the same memory, and no copy")
        sentence = sentence or Message("answer.line_not_in_original|the original program does not have this line here")
        return self._place(number, sentence)

    def _transitive_names_read(self, line: int) -> set[str]:
        """Return the names that a line reads, and those that the lines before it read to bind these."""
        names = set(names_read(self.texts.get(line, "")))
        for earlier in sorted((number for number in self.texts if number < line), reverse=True):
            if any(self._binds(earlier, name) for name in names):
                names |= set(names_read(self.texts[earlier]))
        return names

    def _mistimed(self, write: int, line: int, is_before: bool) -> NamedLine:
        if not is_before and self.original:
            message = Message(
                "answer.computes_with_old_values|this line computes with the old values: line {line} writes the new ones after it",
                line=write,
            )
            return self._place(line, message)
        message = Message(
            "answer.write_too_late|this write comes after line {line}, which computed with the old values", line=line
        )
        if is_before:
            message = Message(
                "answer.write_too_early|this write comes before line {line}, which computes with the new values",
                line=line,
            )
        return self._place(write, message)

    def _place(self, number: int, sentence: str) -> NamedLine:
        places = {step.place.line: step.place for step in self.recording.steps}
        other = Place(self.recording.programs[0].file, number, self.texts[number])
        return NamedLine(places.get(number, other), sentence)

    def _is_other_order(self, write: int, line: int, is_before: bool) -> bool:
        if not self.original:
            return bool(self.written) or not is_before
        texts = (self.texts.get(write, ""), self.texts.get(line, ""))
        first, second = (self.original.index(text) if text in self.original else None for text in texts)
        return first is not None and second is not None and (first < second) != is_before

    def _binds(self, line: int, name: str) -> bool:
        return bool(name) and re.match(rf"(.*, )?{re.escape(name)}(, .*)? = ", self.texts.get(line, "")) is not None

    def _is_in_changed_block(self, line: int) -> bool:
        """Return whether a changed line opens a block in which a line of the answer stands."""
        tree = ast.parse(self.recording.programs[0].source)
        blocks = (node for node in ast.walk(tree) if isinstance(node, ast.With | ast.If))
        return any(node.lineno < line <= (node.end_lineno or 0) for node in blocks if node.lineno in self.changed)


def lines_of(program: Callable[..., Any]) -> tuple[str, ...]:
    """Return the lines of a function or class without comments; () if its source is unknown or it has no statements yet."""
    code = getattr(inspect.unwrap(own_function(program)), "__code__", None)
    text = "".join(linecache.getlines(code.co_filename)) if code else ""
    lines = tuple(numbered_lines(text, program.__name__).values())
    return () if "raise NotImplementedError" in lines else lines


def numbered_lines(text: str, name: str) -> dict[int, str]:
    """Return the lines of a definition by their number, stripped, without the first, empty lines and comments."""
    try:
        definition = next(node for node in ast.parse(text).body if getattr(node, "name", None) == name)
    except (SyntaxError, ValueError, StopIteration):
        return {}
    lines = text.splitlines()[definition.lineno : definition.end_lineno]
    stripped = {number: line.partition("  #")[0].strip() for number, line in enumerate(lines, definition.lineno + 1)}
    return {number: line for number, line in stripped.items() if line and not line.startswith("#")}


def is_thrown_away(line: str) -> bool:
    """Return whether a statement only computes a tensor that no name refers to, or writes into such a copy."""
    node = _statement(line)
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.BinOp | ast.UnaryOp):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return _is_new(node.targets[0].value)
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
        return False
    return value.func.attr in OUT_OF_PLACE or (value.func.attr.endswith("_") and _is_new(value.func.value))


def is_alias(line: str) -> bool:
    """Return whether an assignment binds a name to memory that another name refers to."""
    node = _statement(line)
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in VIEWS and isinstance(value.func.value, ast.Name)
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Name) and isinstance(value.slice, ast.Constant | ast.Slice)
    return isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and value.attr == "data")


def target_of(line: str) -> str:
    """Return the name that a statement modifies, or ""."""
    node = _statement(line)
    target: Any = node.target if isinstance(node, ast.AugAssign) else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value.func
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Call):
        target = target.func if isinstance(target, ast.Call) else target.value
    return target.id if isinstance(target, ast.Name) else ""


def names_read(line: str) -> list[str]:
    """Return the names that a statement reads, in order."""
    node = _statement(line)
    names = [node for node in ast.walk(node) if isinstance(node, ast.Name)] if node else []
    return [name.id for name in names if isinstance(name.ctx, ast.Load)]


def _name_bound(line: str) -> str:
    """Return the name that a plain assignment binds, or ""."""
    node = _statement(line)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else ""


def _is_new(value: ast.expr) -> bool:
    """Return whether an expression is a tensor that nothing else refers to: a copy, or a part of one."""
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.List) or _is_new(value.value)
    if isinstance(value, ast.BinOp):
        return True
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
        return False
    return _is_new(value.func.value) if value.func.attr in VIEWS | {"numpy"} else value.func.attr in OUT_OF_PLACE


def _statement(line: str) -> ast.stmt | None:
    try:
        (node,) = ast.parse(line).body
    except (SyntaxError, ValueError):
        return None
    return node
