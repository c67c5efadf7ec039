"""What a whole script does in plain PyTorch: the loss and the gradients of every backward, and what was trained.

Each run is a process of its own, forked from this one, so that a script may change what it likes. Nothing here imports the tape.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar
from unittest import mock

import torch
from torch import Tensor

from tests.corpus.watch import watch_run
from tests.corpus.whole_scripts import Place, Script

Result = TypeVar("Result")


@dataclass(frozen=True)
class BackwardCall:
    """One call of backward or grad.

    Attributes:
        loss: the sum of what it started from.
        gradients: by the number of a leaf, what the call added to its `.grad`; of `grad`, by position, what it returned.
    """

    loss: float
    gradients: dict[int, Tensor]


@dataclass(frozen=True)
class ScriptRun:
    """What a run did; `line` is where PyTorch's own traceback leaves the program's files, as (file, line).

    Attributes:
        raised: "raises-forward", "raises-backward" or None.
        calls: those that ended.
        trained: by the number of a leaf, its value at the end.
        printed: what went to standard output.
    """

    raised: str | None = None
    message: str = ""
    line: Place | None = None
    calls: list[BackwardCall] = field(default_factory=list)
    trained: dict[int, Tensor] = field(default_factory=dict)
    printed: str = ""


class Listener:
    """Stands in the place of `torch.autograd.backward` and `.grad` while a script runs."""

    def __init__(self) -> None:
        self.calls: list[BackwardCall] = []
        self.leaves: dict[int, tuple[int, Tensor]] = {}
        self.backward, self.grad = torch.autograd.backward, torch.autograd.grad

    def number(self, leaf: Tensor) -> int:
        """Returns the number of a leaf in the order in which backward reached them."""
        return self.leaves.setdefault(id(leaf), (len(self.leaves), leaf))[0]

    def on_backward(self, tensors, *args, **options) -> None:
        """Calls backward, and keeps what it added to each leaf that the graph reaches."""
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        asked = options.get("inputs")
        reached = leaves_of(roots) if asked is None else list(asked)
        before = {id(leaf): dense(leaf.grad) for leaf in reached}
        self.backward(tensors, *args, **options)
        added = {
            self.number(leaf): dense(leaf.grad) - (0 if before[id(leaf)] is None else before[id(leaf)])
            for leaf in reached
            if leaf.grad is not None
        }
        self.calls.append(BackwardCall(total(roots), added))

    def on_grad(self, outputs, *args, **options):
        """Calls grad, and keeps what it returned."""
        found = self.grad(outputs, *args, **options)
        roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        returned = {-1 - place: one.detach().clone() for place, one in enumerate(found) if one is not None}
        self.calls.append(BackwardCall(total(roots), returned))
        return found


def dense(gradient: Tensor | None) -> Tensor | None:
    """Returns a private copy, without the form of a sparse gradient."""
    return None if gradient is None else gradient.detach().to_dense().clone()


def total(roots: list[Tensor]) -> float:
    """Returns the sum of all numbers."""
    return sum(float(root.detach().sum()) for root in roots)


def leaves_of(roots: list[Tensor]) -> list[Tensor]:
    """Returns the leaves that a backward pass from `roots` reaches, each once."""
    waiting, seen, found = [root.grad_fn for root in roots], set(), {}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.setdefault(id(node.variable), node.variable)
        waiting.extend(reversed([following for following, _ in node.next_functions]))
    return list(found.values())


def watched_script(script: Script) -> tuple[set[Place], set[Place]]:
    """Returns the places that wrote into what backward later used, and those that had saved it; see `watch.watch_run`."""
    with tempfile.TemporaryDirectory(prefix="autograder-script-") as made:
        main = script.write(Path(made))

        def place_in(frame) -> Place | None:
            file = Path(frame.f_code.co_filename)
            return (file.name, frame.f_lineno) if file.parent == main.parent else None

        def watched() -> tuple[set[Place], set[Place]]:
            prepare(script, Path(made))
            with contextlib.redirect_stdout(io.StringIO()):
                return watch_run(
                    lambda: start(script, Path(made)),
                    place_in,
                    counted=script.outcome != "silently-wrong",
                    uncounted=script.outcome == "silently-wrong",
                )

        return in_child(watched)


def run_script(script: Script, *, clone_on_save: bool = False, folder: Path | None = None) -> ScriptRun:
    """Returns what a script does, as it is or with a private copy of every saved tensor; `folder` has other texts of its files."""
    with tempfile.TemporaryDirectory(prefix="autograder-script-") as made:
        home = folder or Path(made)
        if folder is None:
            script.write(home)
        return in_child(lambda: plain_run(script, home, clone_on_save))


def in_child(run: Callable[[], Result]) -> Result:
    """Returns what a forked process has found, so that nothing that a script does stays here.

    Raises:
        EOFError: the process ended without an answer.
    """
    import_once()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(run()), daemon=True)
    child.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        child.join()


@cache
def import_once() -> None:
    """Has torch import what an optimizer's first step needs (seconds), so that no child has to."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()


def plain_run(script: Script, home: Path, clone_on_save: bool) -> ScriptRun:
    """Runs the script here, where nothing has to stay as it was."""
    prepare(script, home)
    listener, printed, error = Listener(), io.StringIO(), None
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(mock.patch.object(torch.autograd, "backward", listener.on_backward))
        stack.enter_context(mock.patch.object(torch.autograd, "grad", listener.on_grad))
        stack.enter_context(hooks if clone_on_save else contextlib.nullcontext())
        try:
            start(script, home)
        except Exception as raised:
            error = raised
    trained = {number: leaf.detach().clone() for number, leaf in listener.leaves.values()}
    return ScriptRun(*told(error, home), listener.calls, trained, printed.getvalue())


def prepare(script: Script, home: Path) -> None:
    """Makes this process one that was started for the script, in its folder."""
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy("file_system")  # tensors outlive the process that sends them
    os.chdir(home)
    sys.argv = [script.main, *script.arguments]
    sys.path.insert(0, str(home))


def start(script: Script, home: Path) -> None:
    """Starts the script as Python would; a `SystemExit` with 0 is an end like any other."""
    with contextlib.suppress(SystemExit):
        if script.module:
            runpy.run_module(script.module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(home / script.main), run_name="__main__")


def told(error: Exception | None, home: Path) -> tuple[str | None, str, Place | None]:
    """Returns when a program failed, why, and at which of its own lines."""
    if error is None:
        return None, "", None
    frames = traceback.extract_tb(error.__traceback__)
    backward = any(frame.filename.endswith("torch/autograd/__init__.py") for frame in frames)
    own = [(Path(frame.filename).name, frame.lineno or 0) for frame in frames if frame.filename.startswith(str(home))]
    return f"raises-{'backward' if backward else 'forward'}", str(error), own[-1] if own else None


def same_training(wanted: ScriptRun, got: ScriptRun) -> str | None:
    """Returns None where both trained the same, else the first difference, in words.

    Compared are the losses of all calls, the gradients in the leaves that a call reached in both runs, and the values at the
    end of every leaf that the wanted run trained. The order of calls may differ, since a repair may move one before another.
    """
    if got.raised:
        return f"it {got.raised}: {got.message}"
    if len(wanted.calls) != len(got.calls):
        return f"{len(got.calls)} calls of backward, not {len(wanted.calls)}"
    waiting = list(got.calls)
    for place, call in enumerate(wanted.calls):
        match = next((other for other in waiting if same_call(call, other)), None)
        if match is None:
            return f"call {place} of backward (loss {call.loss:.6g}) has no counterpart"
        waiting.remove(match)
    if not includes(list(got.trained.values()), list(wanted.trained.values())):
        return "the leaves end with other values"
    return None


def same_call(one: BackwardCall, other: BackwardCall) -> bool:
    """Whether losses agree, and one's gradients are among the other's."""
    if abs(one.loss - other.loss) > 1e-4 * max(1.0, abs(one.loss)):
        return False
    few, many = sorted((list(one.gradients.values()), list(other.gradients.values())), key=len)
    return bool(few or not many) and includes(many, few)


def includes(many: list[Tensor], few: list[Tensor]) -> bool:
    """Whether each tensor of `few` has a counterpart of its own in `many`, whatever their order."""
    left = list(many)
    for tensor in few:
        match = next((place for place, other in enumerate(left) if alike(tensor, other)), None)
        if match is None:
            return False
        left.pop(match)
    return True


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, to the rounding of float32 sums in another order."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=2e-3, atol=2e-5, equal_nan=True
    )
