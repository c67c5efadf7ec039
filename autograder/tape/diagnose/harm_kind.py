"""The definition of a kind of harm, and helpers of several kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from textwrap import dedent

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.observe.nodes import TrackedSave
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Harm, Outcome, Place


@dataclass(frozen=True)
class Example:
    """A short program that shows a kind of harm.

    Attributes:
        outcome: its outcome.
        source: its source; `# writes` marks the line with the harmful modification, `# saves` the line whose operation
            needs the old values.
    """

    outcome: Outcome
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", dedent(self.source).lstrip("\n"))

    def lines(self, mark: str) -> list[int]:
        """Return the 1-based numbers of the lines that end with a mark."""
        return [number for number, line in enumerate(self.source.splitlines(), 1) if line.endswith(f"# {mark}")]


@dataclass(frozen=True)
class HarmKind:
    """A way in which an in-place modification makes backward fail or give a wrong gradient.

    Attributes:
        name: its name in `explain --json`.
        sentence: description for readers who know PyTorch.
        outcomes: the outcomes that it can explain; it is skipped for others.
        find: yields the harms of this kind in the evidence of a program.
        example: a program with this kind of harm.
    """

    name: str
    sentence: str
    outcomes: tuple[Outcome, ...]
    find: Callable[[Evidence], Iterable[Harm]]
    example: Example


def writes_into(state: RunState, save: TrackedSave) -> list[WriteEvent]:
    """Return the modifications that increased a saved tensor's counter or changed its bytes, from its save to its use."""
    found = []
    for write in state.writes[save.writes_before : save.until]:
        counted = save.checked and save.counter in write.counters
        touched = write.changed and write.memory is save.memory and save.overlaps(write.start, write.stop)
        if counted or (save in write.harmed if write.swapped else touched and save.changed):
            found.append(write)
    return found


def harm_to(state: RunState, save: TrackedSave, writes: list[WriteEvent], *, changed: bool) -> Harm:
    """Return the Harm of modifications to a saved tensor. `changed` is True if its bytes differ from the saved ones."""
    name, others = name_at_lines(state, save, writes), [write for write in writes if not is_of(write, save)]
    return Harm(
        name, places(writes), alias(others, name), save.node.place, save.node.name, save.version, save.version_now,
        changed, save.record_id,
    )  # fmt: skip


def name_of_save(state: RunState, save: TrackedSave) -> str:
    """Return the name of a saved tensor, or else of its base, or else its attribute in the node."""
    unnamed = f"{save.name} of {save.node.name}"
    if save.tensor is None:
        return unnamed
    owner = state.tensors.all[save.tensor]
    base = state.tensors.all[owner.base] if owner.base is not None else None
    return owner.name or (base and base.name) or state.name_of(owner) or unnamed


def name_at_lines(state: RunState, save: TrackedSave, writes: list[WriteEvent]) -> str:
    """Return the name of a saved tensor: that of the lines that saved and modified it, if an outer function named a result later."""
    name = name_of_save(state, save)
    if save.tensor is None or state.tensors.all[save.tensor].leaf or _reads(save.node.place, name):
        return name
    given = (write.through for write in writes if is_of(write, save))
    return next((one for one in given if one and _reads(save.node.place, one)), name)


def _reads(place: Place, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", place.text) is not None


def name_of_gradient(state: RunState, leaf: TrackedTensor) -> str:
    """Return the display name of a leaf's gradient, such as "w.grad"."""
    return f"{state.name_of(leaf) or 'leaf'}.grad"


def is_of(write: WriteEvent, save: TrackedSave) -> bool:
    """Return whether the modified tensor object is the saved one, whose other names are not aliases."""
    return write.tracked is not None and write.tracked.id == save.tensor


def alias(writes: list[WriteEvent], name: str) -> str | None:
    """Return the first other name that was modified, or None."""
    return next((write.through for write in writes if write.through and write.through != name), None)


def places(writes: list[WriteEvent]) -> tuple[Place, ...]:
    """Return the lines of the modifications without duplicates, in order."""
    return tuple(dict.fromkeys(write.place for write in writes))
