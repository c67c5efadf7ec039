"""All that is known of a run so far: tensors, memory, graph, writes, and the statements with what each changed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from autograder.tape.observe.forecast import UNSEEN, BackwardCall, BackwardRoots, forecast
from autograder.tape.observe.gradient_flow import GradientFlow
from autograder.tape.observe.graph.nodes import Graph, TrackedSave
from autograder.tape.observe.graph.tensors import Tensors, TrackedTensor
from autograder.tape.observe.memory.untracked import Untracked
from autograder.tape.observe.names import find_name
from autograder.tape.observe.statements import Activation, Statements
from autograder.tape.observe.step_builder import StepBuilder, WriteEvent
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memories, Memory

STEPS = 50_000  # statements listed one by one; a longer run is followed to its end, but its further steps are not kept
_FORMS = {"data": ".data", "detach": ".detach()", "__getitem__": "[…]"}


@dataclass(eq=False)
class Buffer:
    """The memory of a leaf's `.grad`, and the line whose backward filled it last, or that assigned it."""

    leaf: TrackedTensor
    place: Place | None = None


class _StepOfThread(threading.local):
    def __init__(self) -> None:
        self.step = StepBuilder()
        self.packed: list[tuple[torch.Tensor, object]] = []
        self.place: Place | None = None
        self.engine_depth = 0


class RunState:
    """The tables that the parts of the observer share."""

    def __init__(self):
        self.memories = Memories()
        self.tensors = Tensors(self.memories)
        self.graph = Graph()
        self.roots = BackwardRoots()
        self.untracked = Untracked()
        self.flow = GradientFlow()
        self.writes: list[WriteEvent] = []
        self.consumed: list[TrackedSave] = []
        self.finished_steps: list[StepBuilder] = []
        self._here = _StepOfThread()
        self.steps = 0
        self.skipped = 0  # statements that called nothing of PyTorch, in a long run
        self.calls = 0
        self.backward_calls: list[BackwardCall] = []
        self.buffers: dict[Memory, Buffer] = {}
        # In each memory: the leaves, and the buffers there that were assigned to their `.grad`.
        self.given: dict[Memory, dict[TrackedTensor, TrackedTensor]] = {}
        self.shared_buffers: list[tuple[Place, TrackedTensor, TrackedTensor]] = []
        self.shared_since: int | None = None
        self.visited: list[list[int]] = []
        self.targets: dict[int, TrackedTensor] = {}  # by the number that the backward calls give them
        self.read_again: dict[Memory, Place] = {}
        self.inherited = 0  # how many nodes, the first ones, were there before the program began: a notebook's earlier cells made them
        self.transforms = False  # whether torch.func differentiated something
        # What the call that each thread is in may write: another thread must not take such a write for its own.
        self.under_way: dict[int, list[Memory]] = {}
        self.statements: Statements

    def is_under_way(self, memory: Memory) -> bool:
        """Returns whether another thread is in a call with a tensor of this storage; that thread will notice what it writes."""
        here = threading.get_ident()
        return any(memory in memories for thread, memories in self.under_way.items() if thread != here)

    @property
    def has_used_inherited(self) -> bool:
        """Whether a backward went through a node that keeps tensors and was there before the program began."""
        return any(
            number < self.inherited and self.graph.nodes[number].saves for visited in self.visited for number in visited
        )

    @property
    def current_step(self) -> StepBuilder:
        """What the statement that runs in this thread has changed so far."""
        return self._here.step

    @property
    def packed(self) -> list[tuple[torch.Tensor, object]]:
        """What hooks have packed in this thread's last operation: each tensor, and what they made of it."""
        return self._here.packed

    @property
    def place(self) -> Place | None:
        """The statement that has just run in this thread, while it is looked at."""
        return self._here.place

    @place.setter
    def place(self, place: Place | None) -> None:
        self._here.place = place

    @property
    def engine_depth(self) -> int:
        """How many backward calls are under way in this thread."""
        return self._here.engine_depth

    @engine_depth.setter
    def engine_depth(self, depth: int) -> None:
        self._here.engine_depth = depth

    def here(self) -> Place:
        """Returns the line that runs now, or the statement that has just run."""
        return self.place or self.statements.here()

    def close(self, activation: Activation, place: Place) -> None:
        """Ends the current step and begins the next."""
        step, self._here.step = self._here.step, StepBuilder()
        step.place, step.function, step.depth = place, activation.function, activation.depth
        step.state_all()
        step.forecast = step.forecast or forecast(self.roots.current())
        self.steps += 1
        if self.steps <= STEPS:
            self.finished_steps.append(step)

    def skip_call(self) -> None:
        """Counts a backward call that nobody looked at."""
        self.calls += 1
        self.visited.append([])
        self.backward_calls.append(UNSEEN)

    def name_of(self, tracked: TrackedTensor, *, look: bool = False) -> str | None:
        """Return a tensor's display name: a variable, or a path such as `self.fc.weight`; `look` searches the frames."""
        tensor = tracked.ref()
        if tracked.name is None and look and tensor is not None:
            tracked.name = find_name(tensor, self.statements.frames)
        if tracked.name is None and tracked.origin:
            source, by = tracked.origin
            name = self.name_of(source, look=look)
            return name and name + _FORMS.get(by, f".{by}(…)")
        return tracked.name

    def scope(self) -> tuple[str, ...]:
        """Returns the modules and functions that are running, outermost first."""
        scope = []
        for activation in self.statements.stack:
            owner = activation.owner
            if isinstance(owner, torch.nn.Module):
                scope.append(type(owner).__name__)
            elif activation.depth:
                scope.append(activation.function)
        return tuple(dict.fromkeys(scope))
