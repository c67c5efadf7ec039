"""An independent witness of who wrote into what backward needs, and where that was saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from tests.corpus.oracles import execute
from tests.corpus.programs import Program


@dataclass
class TrackedSave:
    """A tensor that was saved, as `watch` follows it; `writers` are the lines after which it was no longer the same."""

    tensor: Tensor
    alias: Tensor
    copy: Tensor
    version: int
    line: Any
    writers: list = field(default_factory=list)

    def state(self, counted: bool) -> tuple:
        """The counter now; and unless only that counts the bytes, of the memory and (`.data =` swaps it) of the tensor itself."""
        version = self.alias._version
        return (version,) if counted else (version, fingerprint(self.alias), fingerprint(self.tensor))


def fingerprint(tensor: Tensor) -> bytes:
    """Returns the bytes of a private copy: numpy() of the tensor itself would make its storage unresizable."""
    with torch.no_grad():
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        return copy.reshape(-1).view(torch.uint8).numpy().tobytes()  # bytes: NumPy knows no bfloat16


def watch(program: Program) -> tuple[set[int], set[int]]:
    """Returns the lines that wrote into what backward later used, and the lines that had saved it.

    In a program that raises only writes that the counter saw matter: batch norm keeps running statistics that it writes
    itself and, in training, never uses.
    """

    def line_in(frame: FrameType) -> int | None:
        return frame.f_lineno if frame.f_code.co_filename == program.file else None

    def run() -> None:
        execute(program, compile(program.source, program.file, "exec"))

    return watch_run(run, line_in, counted=program.outcome == "raises-backward", uncounted=True)


def watch_run(
    run: Callable[[], None], place_in: Callable[[FrameType], Any], *, counted: bool, uncounted: bool
) -> tuple[set[Any], set[Any]]:
    """Returns the places that wrote into what backward later used, and the places that had saved it.

    Python's own line tracing and saved-tensor hooks, nothing else: after each line every saved tensor is compared with
    what was saved. What a custom Function stashes without `save_for_backward` stays out of sight.

    Args:
        run: what is watched.
        place_in: the place that a frame is at, or None in code that is not the program's own.
        counted: a saved tensor was harmed only if its version counter moved.
        uncounted: writes that no version counter saw are listed, too, where the tensor was harmed.
    """
    kept: list[tuple[TrackedSave, tuple]] = []
    harmful: set[Any] = set()
    saving: set[Any] = set()
    last: list[Any] = [None]

    def look() -> None:
        for place, (entry, before) in enumerate(kept):
            if (now := entry.state(not uncounted)) != before:
                kept[place] = entry, now
                entry.writers.append(last[0])

    def trace(frame, event, _):
        if place_in(frame) is None:
            return None
        look()
        last[0] = place_above(frame.f_back) if event == "return" else place_in(frame)
        return trace

    def place_above(frame) -> Any:
        """The line that goes on when a call returns: `rows[t] = step(rows)` writes after `step` has ended."""
        while frame and place_in(frame) is None:
            frame = frame.f_back
        return place_in(frame) if frame else last[0]

    def pack(tensor: Tensor) -> TrackedSave:
        look()
        alias = tensor.detach()
        entry = TrackedSave(tensor, alias, alias.clone(), alias._version, last[0])
        kept.append((entry, entry.state(not uncounted)))
        return entry

    def unpack(entry: TrackedSave) -> Tensor:
        look()
        version, *values = entry.state(not uncounted)
        if version != entry.version or (not counted and any(now != fingerprint(entry.copy) for now in values)):
            harmful.update(line for line in entry.writers if line)
            saving.add(entry.line or 0)
        return entry.copy

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            run()
    except RuntimeError:
        pass  # a program that raises for another reason is still seen up to there
    finally:
        sys.settrace(previous)
    return harmful, saving
