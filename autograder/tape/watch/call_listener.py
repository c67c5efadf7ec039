"""Every PyTorch call of one thread, as it happens: which made a node, and which wrote in place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.heard_calls import EXPOSING, FACTS, function_name
from autograder.tape.internals.mode_stack import next_sequence_number, put_on, stands, take_off
from autograder.tape.internals.tensor_fields import read_version, storage_number, unheard
from autograder.tape.observe.graph.tensors import FOREIGN
from autograder.tape.run.function_mode import tensors
from autograder.tape.watch.call_log import NodeLog, WriteLog
from autograder.tape.watch.call_sites import CallSites

# What may write without a counter moving, now or later: running statistics, and who shares the memory (PyTorch 2.13).
EXPOSES = {*EXPOSING, "batch_norm", "instance_norm"}
SHARES = {*FOREIGN} - {"data"}
# These write and move no counter (PyTorch 2.13).
UNCOUNTED = ("data =", "set_", "_fused_")


class CallListener(TorchFunctionMode):
    """Notes each call of its thread in the logs; tells `made(result, before)` of one that made nodes, where that is given.

    A function mode changes neither versions nor the graph (torch 2.13). Whatever goes wrong here ends the listening, never the job.

    Attributes:
        nodes: the log of this thread's nodes.
        open: whether it still listens.
        users: how many watches this thread has open.
        failure: the first error of our own.
    """

    def __init__(self, sites: CallSites, writes: WriteLog, made: Callable[[object, int], None] | None = None):
        super().__init__()
        self.sites, self.writes, self.made = sites, writes, made
        self.nodes = NodeLog(next_sequence_number())
        self.failure: Exception | None = None
        self.users, self.open = 0, True
        self._hidden: tuple[str, int] | None = None
        self._stepping: list[tuple[Tensor, int]] = []
        self._names: dict[Callable, str] = {}

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        """Runs the function, and notes what it did."""
        __tracebackhide__ = True  # pytest shows the test's own frames
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = self._name(func)
        if not name or not self.open:
            return func(*args, **kwargs) if kwargs else func(*args)
        written = self._versions(name, args, kwargs)
        before = next_sequence_number()
        result = func(*args, **kwargs) if kwargs else func(*args)
        after = next_sequence_number()
        try:
            if after != before:
                self.nodes.note(before, after, self.sites.number_of(sys._getframe(1), name), self.writes.clock)
                if self.made is not None:
                    self.made(result if result is not None else args[:1], before)
            if written:
                self._compare(written, name, sys._getframe(1))
            if name in SHARES:
                self._expose(result, name, sys._getframe(1))
        except Exception as error:
            self._fail(error)
        return result

    def _name(self, func: Callable) -> str:
        name = function_name(func)
        return "" if name in FACTS else name

    def _versions(self, name: str, args: Iterable, kwargs: dict | None) -> list[tuple[Tensor, int]]:
        """Return the tensors that the call may modify, with the versions before it; those in lists only if the name says that it writes."""
        try:
            writes = name.endswith("_") and not name.startswith("__")
            found = list(tensors(args)) if writes else [one for one in args if isinstance(one, Tensor)]
            if kwargs:
                found += tensors(kwargs)
            try:
                return [(one, read_version(one)) for one in found]
            except RuntimeError:  # one keeps no version
                return [(one, version_or_zero(one)) for one in found]
        except Exception as error:
            self._fail(error)
            return []

    def _compare(self, written: list[tuple[Tensor, int]], name: str, frame: FrameType) -> None:
        uncounted, exposes = name.startswith(UNCOUNTED), name in EXPOSES
        for tensor, before in written:
            version = version_or_zero(tensor)
            if version != before or uncounted or exposes:
                storage = storage_of(tensor)
                if storage is not None:
                    site = self.sites.number_of(frame, name)
                    self.writes.note(storage, version if version != before else None, site, exposes=exposes)

    def _expose(self, result: object, name: str, frame: FrameType) -> None:
        for tensor in tensors(result):
            storage = storage_of(tensor)
            if storage is not None:
                self.writes.note(storage, None, self.sites.number_of(frame, name), exposes=True)

    def _fail(self, error: Exception) -> None:
        self.failure, self.open = error, False

    def around(self, call: Callable[[], object], name: str, args: tuple, frame: FrameType) -> object:
        """Runs a call that no mode hears: `Function.apply` makes a node, and moves the counters of what `mark_dirty` was told."""
        with unheard():
            written = self._versions(name, args, None)
            moved = [(storage, one) for one, _ in written if (storage := storage_of(one)) is not None]
        result = call()
        with unheard():
            begun, now, site = self.nodes.ends[-1], next_sequence_number(), self.sites.number_of(frame, name)
            if now > begun:
                self.nodes.note(begun, now, site, self.writes.clock)
            if self.made is not None:
                self.made(result, begun)
            self._compare(written, name, frame)
            for storage, tensor in moved:
                if storage_of(tensor) != storage:  # `set_`: what was saved has the old memory, and counts with it
                    self.writes.note(storage, version_or_zero(tensor), site)
        return result

    def step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Steps aside: all that an optimizer's step calls are writes into its parameters."""
        self.hide("step")
        self._stepping = self._versions(
            "step", (one for group in optimizer.param_groups for one in group["params"]), None
        )

    def step_ends(self, optimizer: torch.optim.Optimizer) -> None:
        """Notes the parameters that were written; a fused step moves no counter (PyTorch 2.13)."""
        written, self._stepping = self._stepping, []
        self._compare(written, "_fused_" if optimizer.defaults.get("fused") else "step", sys._getframe(1))
        self.show("step")

    def listen(self) -> None:
        """Puts itself on its thread's stack."""
        put_on(self)

    def stop(self) -> None:
        """Takes itself off."""
        take_off(self)
        self._hidden = None

    def hide(self, reason: str = "compiled") -> None:
        """Steps aside, for the first reason given, such as that compiled code runs."""
        if self._hidden is None and (below := take_off(self)) is not None:
            self._hidden = reason, below

    def show(self, reason: str = "compiled") -> None:
        """Comes back to where it was, if it had stepped aside for this reason."""
        if self._hidden is not None and self._hidden[0] == reason:
            put_on(self, self._hidden[1])
            self._hidden = None

    def absent(self) -> bool:
        """Returns whether it hears nothing in this thread now, and has not stepped aside for compiled code."""
        return self._hidden is None and not stands(self)


def version_or_zero(tensor: Tensor) -> int:
    """Return a tensor's version; 0 for an inference tensor and others without a counter."""
    try:
        return read_version(tensor)
    except RuntimeError:  # an inference tensor, or one wrapped by torch.func
        return 0


def storage_of(tensor: Tensor) -> int | None:
    """Returns the number of a tensor's storage on any device; None where it has none (sparse, wrapped by torch.func)."""
    if tensor.layout != torch.strided:
        return None
    try:
        return storage_number(tensor)
    except (RuntimeError, NotImplementedError):
        return None
