"""Find in-place modifications: their lines and expressions, the changed version counters, and the affected saved tensors."""

from __future__ import annotations

import ast

import torch
from torch import nn
from torch.nn import functional, init

from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.observe.nodes import TrackedSave
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import STATED, TrackedTensor, WriteEvent
from autograder.tape.run.storages import Memory, address_of


def written_through(text: str) -> tuple[str | None, str]:
    """Return the modified expression of a line and the operation, such as ("n", "__setitem__") for `n[:] = 0`."""
    line = text.strip()
    try:
        statements = ast.parse(f"{line} pass" if line.endswith(":") else line).body
    except (SyntaxError, ValueError):  # a part of a longer statement
        return None, "unseen"
    return next((written for written in map(_target, statements) if written[0] is not None), (None, "unseen"))


def _target(statement: ast.stmt) -> tuple[str | None, str]:
    if isinstance(statement, (ast.With, ast.For, ast.If, ast.While)):
        return next((written for written in map(_target, statement.body) if written[0] is not None), (None, "unseen"))
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Subscript):
            return ast.unparse(target.value), "__setitem__"
        if isinstance(target, ast.Attribute):
            return ast.unparse(target.value), f"{target.attr} ="
        return (ast.unparse(target), "in place") if isinstance(statement, ast.AugAssign) else (None, "unseen")
    call = getattr(statement, "value", None)
    return written_by(call) if isinstance(call, ast.Call) else (None, "unseen")


def written_by(call: ast.Call) -> tuple[str | None, str]:
    """Return the expression that an in-place method, an in-place function or an `out=` modifies, and the name of the function."""
    words = {keyword.arg: keyword.value for keyword in call.keywords}
    owner, name = (call.func.value, call.func.attr) if isinstance(call.func, ast.Attribute) else (None, "")
    is_function = owner is None or is_namespace(owner, name) or ("inplace" in words and call.args)
    written = words.get("out") or (next(iter(call.args), None) if is_function else owner)
    return ast.unparse(written) if written else None, name or ast.unparse(call.func)


_MODULES = {"F": functional, "functional": functional, "init": init, "nn": nn}


def is_namespace(owner: ast.expr, name: str) -> bool:
    """Return whether an expression is a module with a function of this name, which modifies its argument, and not a tensor."""
    text = ast.unparse(owner)
    is_module = text.startswith("torch.") or text in ("torch", "np", "numpy", "ctypes")
    return is_module or hasattr(_MODULES.get(text.removeprefix("nn.")), name)


Interval = tuple[int, int]


class Writes:
    """Finds the modifications of a function or statement by comparing the state after it with the known state."""

    def __init__(self, state: RunState):
        self.state = state

    def check(self, tracked: TrackedTensor, tensor: torch.Tensor, operation: str) -> bool:
        """Return whether a tensor was modified since its last check, and record the modification."""
        moved = self._elsewhere(tracked, tensor)
        version = version_of(tensor)
        if moved is None and version == tracked.counter.version:
            return False
        if moved is not None:
            counters = () if version == tracked.counter.version else (tracked.counter.id,)
            refused = self._stale(tracked, version) if counters else ()
            interval = tracked.start, tracked.stop
            self.note(tracked.memory, interval, operation, moved, counters, refused=refused, swapped=tracked)
        else:
            self._counted(tracked, operation, version)
        return True

    def silent(self, tracked: TrackedTensor, operation: str) -> None:
        """Check for a modification without a counter change, as by fused optimizers and inference mode (torch 2.13)."""
        memory = tracked.memory
        if memory.content is not None and memory.alive():
            interval = memory.look()
            if interval is not None:
                self.note(memory, interval, operation, tracked)

    def unreported(self, memory: Memory, interval: Interval, exact: bool) -> None:
        """Record a change that no function reported."""
        text = self.state.here().text
        through, operation = written_through(text)
        shared = False
        for tracked in self.state.tensors.at(memory):
            tensor = tracked.ref()
            if tensor is not None and version_of(tensor) != tracked.counter.version:
                return self._counted(tracked, operation, version_of(tensor), interval)
            shared = shared or (tensor is not None and tensor.is_shared())
        write = self.note(memory, interval, operation)
        write.through, write.exact, write.shared = through, exact, shared
        return None

    def _elsewhere(self, tracked: TrackedTensor, tensor: torch.Tensor) -> TrackedTensor | None:
        """Return the new tracked data of an object that has other memory now (`.data =`, `set_`, `resize_`), else None."""
        place = address_of(tensor)
        if place is None or place[0] == tracked.pointer:
            return None
        state, count = self.state, len(self.state.tensors.all)
        tracked = state.tensors.moved_to_other_memory(tracked, tensor)
        for new in state.tensors.all[count:]:
            state.thread.step.tensors.append(new.id)
            state.thread.step.touch(new)
        return tracked

    def _counted(
        self, tracked: TrackedTensor, operation: str, version: int | None, interval: Interval | None = None
    ) -> None:
        memory = tracked.memory
        has_content = memory.content is not None and memory.alive()
        if has_content and interval is None:
            interval = memory.look()
        changed = interval is not None or not has_content
        interval = interval or (tracked.start, tracked.stop)
        refused = self._stale(tracked, version)
        self.note(memory, interval, operation, tracked, (tracked.counter.id,), changed, refused)

    def _stale(self, tracked: TrackedTensor, version: int | None) -> tuple[TrackedSave, ...]:
        """Return the saved tensors for which backward raises from now on."""
        counter = tracked.counter
        counter.version = version
        saves, counter.valid = counter.valid, []
        refused = []
        for save in saves:
            if save.freed:
                continue
            save.version_now = version
            if save.stale:
                refused.append(save)
                self.state.graph.mark_invalid(save, self.state.steps)
            elif not save.checked:
                counter.valid.append(save)
        return tuple(refused)

    def note(
        self,
        memory: Memory,
        interval: Interval,
        operation: str,
        tracked: TrackedTensor | None = None,
        counters: tuple[int, ...] = (),
        changed: bool = True,
        refused: tuple[TrackedSave, ...] = (),
        swapped: TrackedTensor | None = None,
    ) -> WriteEvent:
        """Record a modification of the bytes [start, stop) of a storage, with its position in the run, and return it.

        `tracked` is the modified tensor, if a function reported it; `refused` are the saved tensors for which backward raises
        from now on, because their counter changed; `swapped` is a tensor that received other memory, such as in `.data = other`.
        """
        state = self.state
        neighbours = state.tensors.at(memory)
        near = tracked or next(iter(neighbours), None)
        size = near.itemsize if near else 1  # often only some bytes of a changed float differ
        start, stop = interval[0] // size * size, -(-interval[1] // size) * size
        corrupted = self._corrupted(memory, interval, swapped) if changed else []
        write = WriteEvent(
            len(state.writes), state.here(), operation, memory, start, stop, counters, changed, tracked,
            harmed=[*refused, *corrupted], swapped=swapped is not None,
            in_backward=state.thread.engine_depth > 0, call=state.calls,
        )  # fmt: skip
        self._note_caller(write)
        if tracked is not None:
            write.version = tracked.counter.version
            write.through = self._name_of(tracked, write)
        state.writes.append(write)
        state.thread.step.writes.append(write)
        for neighbour in neighbours[:STATED] + ([tracked] if tracked else []):
            state.thread.step.touch(neighbour)
        if changed:
            state.untracked.note(write, swapped, neighbours)
        return write

    def _note_caller(self, write: WriteEvent) -> None:
        """Note the active call in which a modification happened, and the node whose custom backward runs."""
        top = self.state.statements.top
        if top is not None:
            write.active_call = top.number
            node = top.frame.f_locals.get("ctx") if write.in_backward else None
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                write.running = self.state.graph.of.get(node)

    def _name_of(self, tracked: TrackedTensor, write: WriteEvent) -> str | None:
        """Return the name of a modified tensor, or the expression in the line if another function gave it its name."""
        name = self.state.name_of(tracked, look=bool(write.harmed) or write.in_backward)
        written, of_line = written_through(write.place.text)
        is_elsewhere = written and of_line == write.operation and (name or "") not in write.place.text
        return written if is_elsewhere else name

    def _corrupted(self, memory: Memory, interval: Interval, swapped: TrackedTensor | None) -> list[TrackedSave]:
        """Return the saved tensors whose values a modification changed. Backward does not detect it if no counter changed."""
        corrupted, still = [], []
        for save in memory.saves:
            if save.freed or save.invalid:
                continue
            if (swapped is None or save.tensor == swapped.id) and save.overlaps(*interval) and save.differs():
                save.changed = True
                self.state.graph.mark_invalid(save, self.state.steps)
                corrupted.append(save)
            else:
                still.append(save)
        memory.saves = still
        return corrupted
