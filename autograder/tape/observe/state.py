"""The state of an observed run: tensors, memory, graph, modifications, and statements with their effects."""

from __future__ import annotations

import threading
from collections.abc import Container

import torch

from autograder.tape.observe.cuts import COPIED, Cut, Sources
from autograder.tape.observe.forecast import BackwardCall, BackwardRoots, forecast
from autograder.tape.observe.gradient_flow import GradientFlow
from autograder.tape.observe.names import find_name, path_from_outside
from autograder.tape.observe.nodes import Graph, GraphNode, TrackedSave
from autograder.tape.observe.statements import ActiveCall, Statements
from autograder.tape.observe.tensors import StepBuilder, Tensors, TrackedTensor, WriteEvent
from autograder.tape.observe.untracked import Untracked
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.function_mode import Functions
from autograder.tape.run.graph_walk import autograd_flags
from autograder.tape.run.storages import Memories, Memory

# Maximum number of recorded statements; a longer run is observed to its end, but later statements are not recorded.
STEPS = 50_000
_FORMS = {"data": ".data", "detach": ".detach()", "__getitem__": "[…]"}


class ThreadState(threading.local):
    """The state of each thread."""

    functions: Functions

    def __init__(self) -> None:
        self.step = StepBuilder()  # the effects so far of the statement that runs
        # the tensors that hooks packed in the last operation, each with the packed value
        self.packed: list[tuple[torch.Tensor, object]] = []
        self.packing = 0  # number of active calls of such hooks
        self.place: Place | None = None  # the statement that has just run, while it is checked
        # the active calls whose variables were read, each with its variables
        self.frames: list[tuple[ActiveCall, dict[str, int]]] = []
        self.engine_depth = 0  # number of active backward calls
        self.visited: list[GraphNode] = []  # the nodes of the last backward call


class RunState:
    """The tables that the parts of the observer share."""

    def __init__(self) -> None:
        self.memories = Memories()
        self.tensors = Tensors(self.memories)
        self.graph = Graph()
        self.roots = BackwardRoots()
        self.untracked = Untracked(self.graph)
        self.writes: list[WriteEvent] = []
        self.flow = GradientFlow(self.writes)
        self.consumed: list[TrackedSave] = []
        self.finished_steps: list[StepBuilder] = []
        self.thread = ThreadState()
        self.steps = 0
        self.skipped = 0  # number of traced statements in a long run that did not call PyTorch
        self.calls = 0
        self.backward_calls: list[BackwardCall] = []
        # For the memory of each `.grad`, the leaf, and the line whose backward filled it last, or that assigned it.
        self.buffers: dict[Memory, tuple[TrackedTensor, Place]] = {}
        # For each memory, the leaves with assigned `.grad` buffers in it, and these buffers.
        self.given: dict[Memory, dict[TrackedTensor, TrackedTensor]] = {}
        self.shared_buffers: list[tuple[Place, TrackedTensor, TrackedTensor]] = []
        self.shared_since: int | None = None
        self.targets: dict[int, TrackedTensor] = {}  # indexed by the number of the target in the backward calls
        self.read_again: dict[Memory, Place] = {}
        # Number of nodes that existed before the program began, created by earlier cells of a notebook.
        self.inherited = 0
        self.transforms = False  # whether torch.func differentiated a function
        # The memory that the active call of each thread may modify; other threads must not report these modifications.
        self.under_way: dict[int, list[Memory]] = {}
        self.statements: Statements

    def is_under_way(self, memory: Memory) -> bool:
        """Return whether another thread is in a call with a tensor of this storage, and will report its modification."""
        here = threading.get_ident()
        return any(memory in memories for thread, memories in self.under_way.items() if thread != here)

    def is_reached(self, memory: Memory) -> bool:
        """Return whether a node saved a tensor of this storage, or a tensor in it requires grad."""
        memory.saves = [save for save in memory.saves if not save.freed]
        living = (tracked.ref() for tracked in self.tensors.at(memory))
        return bool(memory.saves) or any(tensor is not None and autograd_flags(tensor)[0] for tensor in living)

    @property
    def has_used_inherited(self) -> bool:
        """Whether a backward visited a node with saved tensors that existed before the program began."""
        inherited = (number for call in self.backward_calls for number in call.visited if number < self.inherited)
        return any(self.graph.nodes[number].saves for number in inherited)

    def here(self) -> Place:
        """Return the line that runs now, or the statement that has just run."""
        return self.thread.place or self.statements.here()

    def close(self, place: Place, function: str, depth: int) -> None:
        """End the current step and begin the next."""
        step, self.thread.step = self.thread.step, StepBuilder()
        step.place, step.function, step.depth = place, function, depth
        for tracked in step.touched.values():
            if (tensor := tracked.ref()) is not None and (state := tracked.state(tensor)) is not None:
                step.states.append(state)
        step.forecast = step.forecast or forecast(self.roots.current())
        self.steps += 1
        if self.steps <= STEPS:
            self.finished_steps.append(step)

    @property
    def leaves_of_derivatives(self) -> set[int]:
        """The ids of the leaves in the graph of an `autograd.grad` call, which need not return a gradient for them.

        The derivative of an energy for its input does not depend on the last bias.
        """
        return self.graph.leaves_below(node for call in self.flow.calls if call.asked for node in call.nodes)

    @property
    def followers(self) -> set[int]:
        """The ids of parameters into which the program copies values between backward calls, as into a target network.

        They may stay equal: if an optimizer does not train the original, the copied values do not change either.
        """
        writes = (write for write in self.writes if write.call > 0 and not write.in_backward)
        copied = {write.memory.id for write in writes if COPIED.search(write.place.text)}
        return {number for number, leaf in self.flow.optimized.items() if leaf.memory.id in copied}

    def leaves_above(self, cut: Cut, sources: Sources | None = None) -> set[int]:
        """Return the ids of the tensors that receive no gradient because of the cut, or because of the cut of these sources."""
        chosen = cut.sources if sources is None else sources
        return chosen.keys() | self.graph.leaves_below(node for _, node in chosen.values())

    def leaves_of_losses(self, cut: Cut, in_losses: Container[int | None]) -> set[int]:
        """Return the ids of the tensors that would receive the gradient of a loss without the cut.

        Values that the program combined only with a graph that reaches no loss are left out. `in_losses` are the numbers of
        the nodes that a backward call would visit without cuts.
        """
        return self.leaves_above(cut, cut.sources_in(in_losses, len(self.flow.calls)) if cut.uses else None)

    def leaves_used_in(self, cut: Cut, nodes: Container[int | None]) -> set[int]:
        """Return the ids of the tensors behind the values of a cut that these nodes use; none if no node uses one."""
        is_used = any(node in nodes for node, *_ in cut.uses)
        return self.leaves_above(cut, cut.sources_in(nodes, -1)) if is_used else set()

    def name_of(self, tracked: TrackedTensor, *, look: bool = False) -> str | None:
        """Return a tensor's display name: a variable, or a path such as `self.fc.weight`. `look` searches the frames."""
        tensor = tracked.ref()
        if tracked.name is None and look and tensor is not None:
            name = find_name(tensor, frames := self.statements.frames)
            tracked.name = name and path_from_outside(name, tensor, frames)
        if tracked.name is None and tracked.origin:
            source, by = tracked.origin
            name = self.name_of(source, look=look)
            return name and name + _FORMS.get(by, f".{by}(…)")
        return tracked.name

    def made_at(self, tracked: TrackedTensor) -> Place | None:
        """Return the statement in which a tensor first appeared, or None if it is not recorded."""
        return self.finished_steps[tracked.step].place if tracked.step < len(self.finished_steps) else None

    def scope(self) -> tuple[str, ...]:
        """Return the modules and functions that are running, outermost first."""
        scope = []
        for active_call in self.statements.thread.stack:
            owner = active_call.frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module):
                scope.append(type(owner).__name__)
            elif active_call.depth:
                scope.append(active_call.function)
        return tuple(dict.fromkeys(scope))
