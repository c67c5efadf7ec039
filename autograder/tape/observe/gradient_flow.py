"""Find where gradients stop: values that leave the graph, parameters of optimizers, gradients that are used twice."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from autograder.tape.internals.tensor_fields import hooks_of
from autograder.tape.observe.cuts import SOURCES, SUMS, Cut, Cuts, returns_python_values
from autograder.tape.observe.forecast import BackwardCall
from autograder.tape.observe.left_gradients import Filling, ReadGradients, UsedGradients
from autograder.tape.observe.optimizer_steps import ModeSwitches, OptimizerSteps, Parameters, is_empty
from autograder.tape.observe.tensors import TrackedTensor, WriteEvent
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import autograd_flags, node_of
from autograder.tape.run.storages import Memory

COMPUTED = 10_000  # maximum number of stored ids of constants
# These functions do not use a value: they access its gradient, only print it, or return a new tensor of its shape.
_NO_USE = {
    "grad", "grad =", "_grad =", "backward", "retain_grad", "register_hook", "requires_grad_", "__repr__", "__format__",
    "new", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros",
}  # fmt: skip
_OF_SHAPE = "_like"  # the end of the names of functions such as `randn_like`
_JOINS = {"stack", "cat", "concat", "concatenate", "vstack", "hstack"}
_UPDATE = re.compile(r"step\w*\(|(?<!no_)(?<!set_)(?<!requires_)grad|update")
_READS_ONLY = re.compile(r"zero_grad|clip_grad")  # methods that read gradients without a use of their values


@dataclass(eq=False)
class StartedBackward:
    """A call of backward: its line, its roots and their nodes, whether recording was on, and the cut that a root came from."""

    place: Place
    graph: BackwardCall  # the state of its graph
    roots: list[TrackedTensor]
    nodes: list[int | None]
    recording: bool
    cut: Cut | None
    asked: list[TrackedTensor]  # the tensors whose gradients `autograd.grad` was to return
    creates_graph: bool  # whether the gradients have a graph
    keeps_graph: bool
    of: EarlierGradient | None  # a gradient that the roots were computed from, or None
    writes: int  # number of modifications in the run before it

    @property
    def has_graph(self) -> bool:
        """Whether a root has a graph."""
        return any(node is not None for node in self.nodes)


@dataclass(frozen=True)
class EarlierGradient:
    """A gradient that the program received: the call that computed it, and the tensor that it belongs to."""

    gradient: TrackedTensor
    call: StartedBackward
    target: TrackedTensor | None


class GradientFlow:
    """The use of values that require grad in a run, apart from computations."""

    def __init__(self, writes: list[WriteEvent]) -> None:
        self._writes = writes
        self.cuts = Cuts()
        self.calls: list[StartedBackward] = []
        self.reached: dict[int, TrackedTensor] = {}
        # When the last call without a graph began: the lines that had set `requires_grad` to False, the last one at the end,
        # with the id of the leaf if an earlier call reached it.
        self.frozen_at: list[tuple[int | None, Place]] = []
        self._frozen: MutableMapping[torch.Tensor, Place] = WeakIdKeyDictionary()
        self.optimized: dict[int, TrackedTensor] = {}
        self._updated = set[Memory]()  # the memory of these
        self.optimizer_at: Place | None = None
        self.updated_at: dict[int, Place] = {}
        self.first_held: dict[int, tuple[int, int]] = {}  # by id, the number of calls and the position in the optimizer
        # By line, the last tensor whose `.grad` was None there, whether it required grad, and the number of calls before it.
        self.missing: dict[Place, tuple[TrackedTensor, bool, int]] = {}
        # the same of tensors whose gradient is to be kept, after a backward call
        self.retained_late: dict[Place, TrackedTensor] = {}
        self.present: set[Place] = set()  # the lines that read a `.grad` which was not None
        # by id of a leaf, the largest number of its hooks that are one function, and where that grew between two calls
        self.hooks: dict[int, int] = {}
        self.hooked: dict[int, tuple[TrackedTensor, int]] = {}
        # by line that joins tensors, one that it is given several times, and how often
        self.repeated: dict[Place, tuple[TrackedTensor, int]] = {}
        # by line of a backward call and name of an iterator, the number of calls at which it had no items left
        self.used_up: Counter[tuple[Place, str]] = Counter()
        self.shared: dict[Place, tuple[TrackedTensor, TrackedTensor]] = {}  # by line of `leaf.data = value`, both
        # by line that copies tensors after a step, and by number of backward calls before it, whether each was copied onto
        # itself
        self.copied: dict[Place, dict[int, bool]] = {}
        self.restored: set[Place] = set()  # those of these lines that copy into parameters of an optimizer
        # ids of tensors that did not require grad when an operation of the graph used them
        self.constant: set[int] = set()
        self.steps, self.modes = OptimizerSteps(), ModeSwitches()
        self.reads, self._used = ReadGradients(), UsedGradients()
        self._of_gradient: set[int] = set()  # ids of the values that were computed from a `.grad`
        self._gradient_into = set[Memory]()  # the memories that such values were written into since the last backward
        # leaves whose gradients two updates used, with the lines of the backward between them and of the second update
        self.used_twice: list[tuple[Place, TrackedTensor, Place]] = []
        self._searched = 0  # number of modifications that were searched for updates
        self.cleared: list[tuple[Place, list[TrackedTensor]]] = []
        # the steps at which no parameter had a gradient, with the parameters and the number of calls before
        self.empty_steps: list[tuple[Place, list[TrackedTensor], int]] = []
        # ids of the leaves that had a gradient after the last backward, which no step had used
        self._full = set[int]()
        # number of calls and of entries of `cleared` and `empty_steps` when the last step began
        self._before_step = 0, 0, 0
        # The last function call that began: its name, its tensor arguments, and its line.
        self.last_call: tuple[str, list[TrackedTensor], Place] | None = None
        # by line, gradients without a graph, and the first sums (node and line) with a number that is computed from it
        self.constants: dict[Place, tuple[EarlierGradient, dict[int, Place]]] = {}
        # the same for the derivative of a tensor that is not a parameter, with that tensor and the node of the sum
        self.derivatives: dict[Place, tuple[EarlierGradient, TrackedTensor, Place, int]] = {}
        self.earlier: dict[int, EarlierGradient] = {}  # by id of a value, a gradient that it was computed from

    @property
    def accounted_for(self) -> set[int]:
        """The ids of the leaves that a backward reached, that had a gradient at a step, or that are frozen."""
        return self.reached.keys() | self.steps.trained | self.steps.frozen

    def begin_call(self, name: str, inputs: list[TrackedTensor], here: Place) -> None:
        """Process the start of a function call."""
        self.last_call = name, inputs, here
        if name == "detach_":
            self.cuts.detach_in_place(inputs[0], here)

    def on_operation(
        self,
        name: str,
        inputs: list[Any],
        sources: list[TrackedTensor],
        result: object,
        results: list[Any],
        here: Place,
        numbers: Iterable[float],
    ) -> None:
        """Process a function call: its tensor arguments with their tracked data, its return value, and the tensors that it returned.

        For `__setitem__`, `results` is the tensor that it modified. `numbers` are the float arguments.
        """
        if name in ("grad", "grad ="):
            self._access_gradient(name, inputs, sources, result, here)
        if name == "requires_grad_":
            self.set_requires_grad(inputs[0], here)
        if name in _JOINS and len(inputs) > 2 and all(tensor is inputs[0] for tensor in inputs):
            self.repeated[here] = sources[0], len(inputs)
        if name == "copy_" and len(sources) == 2 and self.steps.calls:
            self._copy(sources[0], sources[1], here)
        self._follow_gradients(name, sources, results)
        self._follow_update(name, sources, results)
        self.steps.on_operation(name, sources, [tracked for _, tracked in results], here)
        self.cuts.remember([pair for pair in results if not sources or self.steps.is_random(pair[1])])
        self.cuts.scale_noise(name, sources, results)
        if name in _NO_USE or name.endswith(_OF_SHAPE):
            return
        self.cuts.write(name, inputs, sources, here)
        if name == "data =":
            self.shared[here] = sources[0], sources[1]
            return
        asking = [source for tensor, source in zip(inputs, sources, strict=True) if autograd_flags(tensor)[0]]
        self.steps.constant.update(source.id for source in sources if source.parameter and source not in asking)
        computed = [pair for pair in results if autograd_flags(pair[0])[0] and not _is_cut_off(pair[0], inputs)]
        if computed:
            self.steps.use(sources, here)
            if name in SUMS:
                self._add(inputs, sources, computed[0][1].node, here)
            self.cuts.remember(computed)
            self.cuts.use(sources, numbers, here, computed[0][1].node)
            if len(self.constant) < COMPUTED:
                self.constant |= {source.id for source in sources if not source.requires_grad}
        elif here == self.steps.running_at:  # such as `.item()` of Adafactor
            return
        elif asking and (results or returns_python_values(result)):
            self.cuts.leave(name, asking, sources, results, result, here)
            self.cuts.draw(sources, here)
        else:
            self.cuts.pass_on(name, sources, results, result, here, numbers)

    def _copy(self, written: TrackedTensor, read: TrackedTensor, here: Place) -> None:
        """Note whether all tensors that a line copies between two backward calls are copied onto themselves."""
        is_same = written.memory is read.memory and written.start == read.start
        times = self.copied.setdefault(here, {})
        times[len(self.calls)] = times.get(len(self.calls), True) and is_same
        if written.memory in self._updated:
            self.restored.add(here)

    def set_requires_grad(self, leaf: torch.Tensor, here: Place) -> None:
        """Process a line that may have set `requires_grad` of a tensor."""
        self._frozen.pop(leaf, None)
        if not leaf.requires_grad:
            self._frozen[leaf] = here

    def _access_gradient(
        self, name: str, inputs: list[Any], sources: list[TrackedTensor], result: object, here: Place
    ) -> None:
        """Process a line that reads or sets the `.grad` of a tensor."""
        if name == "grad =":
            if sources and not any(source.id in self._of_gradient for source in sources[1:]):
                self._used.clear(sources[0].object_id)  # or replaced with a gradient that is not computed from it
            return
        if result is None and len(inputs) == 1:
            if not inputs[0].retains_grad:
                self.missing[here] = sources[0], inputs[0].requires_grad, len(self.calls)
            elif self.calls:
                self.retained_late[here] = sources[0]
        elif isinstance(result, torch.Tensor):
            self.present.add(here)
        if len(sources) == 1 and not _READS_ONLY.search(here.text) and not _is_conversion():
            self.steps.note_read(sources[0])
            self.reads.read(sources[0], here)

    def _follow_gradients(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note the values that are computed from a gradient: from the result of `autograd.grad`, or from `.grad`."""
        if name == "grad" and self.calls:
            call = self.calls[-1]
            targets = sources if len(sources) == 1 else call.asked
            for (_, tracked), target in zip(results, targets, strict=False):
                asked = target if len(targets) == len(results) else None
                self.earlier.setdefault(tracked.id, EarlierGradient(tracked, call, asked))
        elif torch.is_grad_enabled() and name != "detach" and (earlier := self._earlier_of(sources)) is not None:
            # A parameter that a step updates is not a function of its gradient.
            self.earlier |= {tracked.id: earlier for _, tracked in results if not tracked.leaf}

    def _follow_update(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note the values that are computed from a `.grad`, recorded or not, and the memory that one is written into."""
        is_read = name == "grad" and len(sources) == 1
        of_gradient = [source.id in self._of_gradient for source in sources]
        if is_read or any(of_gradient):
            self._of_gradient |= {tracked.id for _, tracked in results if not tracked.leaf}
        if any(of_gradient[1:]):
            self._gradient_into.add(sources[0].memory)

    def add_new_leaf(self, leaf: TrackedTensor, here: Place) -> None:
        """Process a tensor without a graph that no function returned. It may be in the storage of a known value."""
        value = self.cuts.value_in(leaf)
        if value is not None:
            if leaf.leaf:
                self.steps.wrap(leaf, value)
            self.cuts.add_new_leaf(leaf, value, here)

    def _earlier_of(self, sources: Iterable[TrackedTensor]) -> EarlierGradient | None:
        return next((self.earlier[source.id] for source in sources if source.id in self.earlier), None)

    def _add(self, inputs: list[Any], sources: list[TrackedTensor], node: int | None, here: Place) -> None:
        """Note a value without a graph that was computed from a gradient or a cut, if it is added to a tensor with a graph.

        `node` is the node of the sum.
        """
        for tensor, tracked in zip(inputs, sources, strict=True):
            self.cuts.add_term(tensor, tracked, node, here)
            earlier = self.earlier.get(tracked.id)
            # A value that was detached on purpose has a cut. The gradient of a number may update it: `w - lr * grad`.
            if earlier is None or tensor.requires_grad or self.cuts.of(tracked) or earlier.call.creates_graph:
                continue
            place, target = earlier.call.place, earlier.target
            if earlier.call.asked and earlier.gradient.shape and not tensor.dim():
                _, sums = self.constants.setdefault(place, (earlier, {}))
                if node is not None and len(sums) < SOURCES:
                    sums[node] = here
            elif tensor.dim() and node is not None and target is not None and not target.parameter:
                self.derivatives.setdefault(place, (earlier, target, here, node))

    def hold(self, optimizer: torch.optim.Optimizer, parameters: Parameters, here: Place) -> None:
        """Record the parameters that an optimizer will update, and whether gradients of a backward were lost before."""
        self.optimized |= {tracked.id: tracked for _, tracked in parameters}
        self._updated |= {tracked.memory for _, tracked in parameters}
        self.optimizer_at = self.optimizer_at or here
        self.updated_at |= {tracked.id: here for _, tracked in parameters}
        for position, (_, tracked) in enumerate(parameters):
            self.first_held.setdefault(tracked.id, (len(self.calls), position))
        if self.steps.running_at is None:
            self._before_step = len(self.calls), len(self.cleared), len(self.empty_steps)
        if self.empty_steps:  # The first step of an optimizer may come before the first backward of its loss.
            given = {tracked.id for tensor, tracked in parameters if not is_empty(tensor.grad)}
            self.empty_steps = [step for step in self.empty_steps if given.isdisjoint(leaf.id for leaf in step[1])]
        if not any(tracked.id in self._full or not is_empty(tensor.grad) for tensor, tracked in parameters):
            self.empty_steps.append((here, [tracked for _, tracked in parameters], len(self.calls)))
        objects = {id(leaf.ref()) for leaf in self.steps.filled.values()}  # `p.data = …` does not change the object
        filled = [(tensor, tracked) for tensor, tracked in parameters if id(tensor) in objects]
        if filled and all(is_empty(tensor.grad) for tensor, _ in filled):
            self.cleared.append((here, [tracked for _, tracked in filled]))
        self.steps.step(optimizer, parameters, len(self.calls), here)
        self.reads.step(parameters, here)
        self.modes.step({id(tensor) for tensor, _ in parameters if tensor.grad is not None})

    def end_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Process the end of a step. If its closure called backward, the step used those gradients, not cleared ones."""
        calls, cleared, empty = self._before_step
        if len(self.calls) > calls:
            del self.cleared[cleared:], self.empty_steps[empty:]
        self.steps.end_step(optimizer)

    def backward(
        self, call: Backward, graph: BackwardCall, targets: list[TrackedTensor], roots: list[TrackedTensor], here: Place
    ) -> None:
        """Process the start of a backward: the leaves that it reaches, and those whose gradients were used already."""
        asked, cut, of = targets if call.asked else [], self.cuts.origin(roots), self._earlier_of(roots)
        recording, nodes = torch.is_grad_enabled(), [root.node for root in roots]
        keeps_graph = bool(call.keeps_graph)
        started = StartedBackward(
            here, graph, roots, nodes, recording, cut, asked, call.creates_graph, keeps_graph, of, len(self._writes)
        )
        if not started.has_graph:
            self.steps.find_frozen()
            ids = {id(leaf.ref()): leaf.id for leaf in self.reached.values()}
            self.frozen_at = [(ids.get(id(leaf)), place) for leaf, place in self._frozen.items()]
            if not recording:
                self.modes.go_on_without_recording()
        self.calls.append(started)
        self.cuts.calls += 1
        self.reached |= {target.id: target for target in targets}
        self.find_updates()
        if call.returns:
            return
        filling = Filling(here, len(self.calls))
        for leaf, tracked in zip(call.targets, targets, strict=True):
            self._count_hooks(leaf, tracked)
            is_first = is_empty(leaf.grad if leaf.is_leaf else None)
            self.reads.begin(filling, tracked, is_first=is_first)
            self._used.fill(tracked.object_id, here, is_first=is_first)

    def _count_hooks(self, leaf: torch.Tensor, tracked: TrackedTensor) -> None:
        """Note a leaf on which a hook was registered once more since the last call."""
        codes = Counter(getattr(hook, "__code__", hook) for hook in hooks_of(leaf)) if leaf.is_leaf else Counter()
        count, before = max(codes.values(), default=0), self.hooks.get(tracked.object_id, 0)
        if count > before > 0:
            self.hooked[tracked.object_id] = tracked, count
        self.hooks[tracked.object_id] = count

    def find_updates(self) -> None:
        """Find the leaves that were updated since the last call, whose gradients are used now. A second use is a fault."""
        new = [write for write in self._writes[self._searched :] if write.changed and not write.in_backward]
        updated = {
            write.memory: write.place for write in new
            if _UPDATE.search(write.place.text) or write.memory in self._gradient_into
        }  # fmt: skip
        self._searched = len(self._writes)
        self._gradient_into.clear()
        for tracked in self.reached.values() if updated else ():
            if tracked.memory in updated and (added := self._used.use(tracked.object_id)) is not None:
                self.used_twice.append((added, tracked, updated[tracked.memory]))

    def fill(self, targets: Parameters) -> None:
        """Record the leaves whose gradient a backward has filled. A nested one (of a checkpoint) adds leaves while it runs."""
        self.reached |= {target.id: target for _, target in targets}
        self.steps.fill(targets)
        filled = self.steps.filled.values()
        now = {tracked.id for _, tracked in targets}
        self._full = {leaf.id for leaf in filled if leaf.id in now or not is_empty(getattr(leaf.ref(), "grad", None))}


def _is_conversion() -> bool:
    """Return whether a module reads the gradient to convert its parameters (`Module.to` calls `Module._apply`, 2.6 to 2.14)."""
    return any(frame.f_code.co_qualname == "Module._apply" for frame, _ in traceback.walk_stack(None))


def _is_cut_off(result: torch.Tensor, inputs: list[Any]) -> bool:
    """Return whether a function returned a new leaf or, under `no_grad`, a view. Both require grad without a graph."""
    is_new = all(result is not value for value in inputs)
    is_view = not torch.is_grad_enabled() and node_of(result) is None
    return is_new and (is_view or autograd_flags(result) == (True, True))
