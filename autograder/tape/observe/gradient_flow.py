"""Find where gradients stop: values that leave the graph, parameters of optimizers, gradients that are used twice."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autograder.tape.internals.tensor_fields import hooks_of
from autograder.tape.observe.left_gradients import Filling, ReadGradients, UsedGradients
from autograder.tape.observe.optimizer_steps import ModeSwitches, OptimizerSteps, Parameters, is_empty
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import autograd_flags, node_of
from autograder.tape.run.storages import Memory

NO_GRAD = "no_grad"
NEW_LEAF, VARIABLE, WRITTEN = "new leaf", "Variable(", "written"
SOURCES = 500  # maximum number of tensors stored per cut, because a line in a loop creates new ones in each iteration
COMPUTED = 10_000  # number of stored storages above which freed ones are removed
LISTED = 64  # maximum number of elements of a new tensor that are compared with numbers that left the graph
# These functions do not use a value: they access its gradient, only print it, or return a new tensor of its shape.
_NO_USE = {
    "grad", "grad =", "_grad =", "backward", "retain_grad", "register_hook", "requires_grad_", "__repr__", "__format__",
    "new", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros",
}  # fmt: skip
_OF_SHAPE = "_like"  # the end of the names of functions such as `randn_like`
_SUMS = {
    "add", "add_", "sub", "sub_", "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "rsub", "__isub__", "mse_loss",
}  # fmt: skip
_TAKES_VALUES = {"data", "detach", "detach_", "item", "tolist", "numpy", "__array__", "__float__"}
_MADE_OF_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor", "from_numpy", "full", "scalar_tensor"}
_JOINS = {"stack", "cat", "concat", "concatenate", "vstack", "hstack"}
_UPDATE = re.compile(r"step|grad|update")
_DRAWS = {"randn", "randn_like", "normal", "normal_"}
_PRODUCTS = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
_READS_ONLY = re.compile(r"zero_grad|clip_grad")  # methods that read gradients without a use of their values


@dataclass(eq=False)
class Cut:
    """A line at which values leave the graph: `sources` have a graph, but the result of `how` does not."""

    place: Place
    # the function, such as "detach", "item" or "argmax"; `NO_GRAD` if recording was off; `NEW_LEAF` for a leaf that no
    # function mode receives: `nn.Parameter(h)`, `Variable(h.data, requires_grad=True)` (PyTorch 2.13); `WRITTEN` for a
    # leaf whose values were set through an alias: `w.data = h`, `w.data.copy_(h)`
    how: str
    # the values and their nodes, by id of the tensor
    sources: dict[int, tuple[TrackedTensor, int | None]] = field(default_factory=dict)
    used_at: list[Place] = field(default_factory=list)  # lines that used such a value in the graph
    # the nodes of these results, each with the number of backward calls before it and the ids of the sources behind it,
    # or None if these are not known
    uses: list[tuple[int | None, int, frozenset[int] | None]] = field(default_factory=list)
    last: int = 0  # number of backward calls before the line ran last
    behind: Cut | None = None  # the earlier cut of the values that this line only turned into an array

    @property
    def values(self) -> list[TrackedTensor]:
        """The values that leave the graph."""
        return [tracked for tracked, _ in self.sources.values()]


@dataclass(eq=False)
class StartedBackward:
    """A call of backward: its line, its roots and their nodes, whether recording was on, and the cut that a root came from."""

    place: Place
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

    def __init__(self) -> None:
        self.cuts: dict[tuple[Place, str], Cut] = {}
        self.calls: list[StartedBackward] = []
        self.reached: dict[int, TrackedTensor] = {}
        self.optimized: dict[int, TrackedTensor] = {}
        self.optimizer_at: Place | None = None
        self.updated_at: dict[int, Place] = {}
        self.first_held: dict[int, tuple[int, int]] = {}  # by id, the number of calls and the position in the optimizer
        # By line, the last tensor whose `.grad` was None there, and whether it required grad.
        self.missing: dict[Place, tuple[TrackedTensor, bool]] = {}
        # the same of tensors whose gradient is to be kept, after a backward call
        self.retained_late: dict[Place, TrackedTensor] = {}
        self.present: set[Place] = set()  # the lines that read a `.grad` which was not None
        # by id of a leaf, the largest number of its hooks that are one function, and where that grew between two calls
        self._hooks: dict[int, int] = {}
        self.hooked: dict[int, tuple[TrackedTensor, int]] = {}
        # by line that joins tensors, one that it is given several times, and how often
        self.repeated: dict[Place, tuple[TrackedTensor, int]] = {}
        # by line of a backward call and name of an iterator, the number of calls at which it had no items left
        self.used_up: Counter[tuple[Place, str]] = Counter()
        self.shared: dict[Place, tuple[TrackedTensor, TrackedTensor]] = {}  # by line of `leaf.data = value`, both
        # by line that copies a state into a module after a step, and by number of backward calls before it, whether each
        # tensor was copied onto itself
        self.copied: dict[Place, dict[int, list[bool]]] = {}
        self._of_value: dict[int, Cut] = {}
        self._behind: dict[int, frozenset[int]] = {}  # by id of such a value, the sources of its cut that it came from
        self._of_number: dict[float, Cut] = {}
        self._of_memory: dict[Memory, Cut] = {}
        self._written: dict[Memory, Cut] = {}  # by memory of a leaf, the line that wrote a value with a graph into it
        # The last value with a graph in each storage, or the last value that left it.
        self._computed: dict[int, tuple[StorageWeakRef, TrackedTensor]] = {}
        # by line, the cuts by which `Normal.sample` draws (PyTorch 2.13), and those by scaled noise while recording is off
        self.drawn: dict[Place, Cut] = {}
        self._noise, self._scaled = set[Memory](), set[Memory]()
        self.new_leaves: dict[int, Place] = {}  # by id, the lines at which values that left the graph became leaves
        # ids of tensors that did not require grad when an operation of the graph used them
        self.constant: set[int] = set()
        self.steps, self.modes = OptimizerSteps(), ModeSwitches()
        self.reads, self._used = ReadGradients(), UsedGradients()
        self._of_gradient: set[int] = set()  # ids of the values that were computed from a `.grad`
        self._gradient_into: set[Memory] = (
            set()
        )  # the memories that such values were written into since the last backward
        # leaves whose gradients two updates used, with the lines of the backward between them and of the second update
        self.used_twice: list[tuple[Place, TrackedTensor, Place]] = []
        self._writes = 0  # number of modifications that were searched for updates
        self.cleared: list[tuple[Place, list[TrackedTensor]]] = []
        # the steps at which no parameter had a gradient, with the parameters and the number of calls before
        self.empty_steps: list[tuple[Place, list[TrackedTensor], int]] = []
        # number of calls and of entries of `cleared` and `empty_steps` when the last step began
        self._before_step = 0, 0, 0
        # The last function call that began: its name, its tensor arguments, and its line.
        self.last_call: tuple[str, list[TrackedTensor], Place] | None = None
        # By line, gradients without a graph, and the line that adds a number computed from it to a loss.
        self.constants: dict[Place, tuple[EarlierGradient, Place]] = {}
        # the same for a derivative for a leaf that is no parameter: also that leaf's id, and the node of the sum
        self.derivatives: dict[Place, tuple[EarlierGradient, int, Place, int]] = {}
        # By line that takes values without their graph, that cut, and the first sums (node and line) that add a value computed from it.
        self.detached_terms: dict[Place, tuple[Cut, dict[int, Place]]] = {}
        self.earlier: dict[int, EarlierGradient] = {}  # by id of a value, a gradient that it was computed from

    def begin_call(self, name: str, inputs: list[TrackedTensor], here: Place) -> None:
        """Process the start of a function call. `detach_` removes the node from which the sources of the tensor are known."""
        self.last_call = name, inputs, here
        if name == "detach_" and inputs[0].node is not None:
            self._of_value[inputs[0].id] = self._cut(name, inputs, here)

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
        if name in _JOINS and len(inputs) > 2 and all(one is inputs[0] for one in inputs):
            self.repeated[here] = sources[0], len(inputs)
        if name == "copy_" and len(sources) == 2 and self.steps.calls and "load_state_dict" in here.text:
            first, second = sources
            is_same = first.memory is second.memory and first.start == second.start
            self.copied.setdefault(here, {}).setdefault(len(self.calls), []).append(is_same)
        self._follow_gradients(name, sources, results)
        self._follow_update(name, sources, results)
        self.steps.on_operation(name, sources, [tracked for _, tracked in results], here)
        self._remember([pair for pair in results if not sources or self.steps.is_random(pair[1])])
        self._scale_noise(name, sources, results)
        if name in _NO_USE or name.endswith(_OF_SHAPE):
            return
        if len(inputs) > 1 and node_of(inputs[1]) is not None and (memory := self._memory_of_leaf(name, sources)):
            self._written[memory] = self._cut(WRITTEN, sources[1:2], here)
        if name == "data =":
            self.shared[here] = sources[0], sources[1]
            return
        asking = [source for tensor, source in zip(inputs, sources, strict=True) if autograd_flags(tensor)[0]]
        self.steps.constant.update(source.id for source in sources if source.parameter and source not in asking)
        computed = [pair for pair in results if autograd_flags(pair[0])[0] and not _is_cut_off(pair[0], inputs)]
        if computed:
            self.steps.use(sources, here)
            if name in _SUMS:
                self._add(inputs, sources, computed[0][1].node, here)
            self._remember(computed)
            if torch.is_grad_enabled():
                self._note_use(sources, numbers, here, computed[0][1].node)
            elif (written := self.origin(sources[1:])) is not None:  # the graph has it if a recorded line uses the leaf
                self._written[sources[0].memory] = written
            if len(self.constant) < COMPUTED:
                self.constant |= {source.id for source in sources if not source.requires_grad}
        elif here == self.steps.running_at:  # such as `.item()` of Adafactor
            return
        elif asking and (results or _returns_python_values(result)):
            self._cut_off(name, asking, results, result, here)
            if any(source.memory in self._scaled for source in sources) and (here, NO_GRAD) in self.cuts:
                self.drawn[here] = self.cuts[here, NO_GRAD]
        elif (cut := self.origin(sources) or self._cut_behind_numbers(name, results, numbers)) is not None:
            self._pass_on(name, cut, sources, results, result, here)

    def _scale_noise(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note noise, and its products with values that had a graph, if they are computed while recording is off."""
        memories = {tracked.memory for _, tracked in results} if name in _DRAWS or name in _PRODUCTS else set()
        if name in _DRAWS:
            self._noise |= memories
        elif memories and not torch.is_grad_enabled():
            had_graph = any(source.requires_grad or source.id in self._of_value for source in sources)
            is_noise = any(source.memory in self._noise and not source.requires_grad for source in sources)
            self._scaled |= memories if had_graph and is_noise else set()

    def _cut_off(self, name: str, asking: list[TrackedTensor], results: list[Any], result: object, here: Place) -> None:
        """Process a call whose results do not have the graph of its arguments."""
        made = self._cut(name if torch.is_grad_enabled() else NO_GRAD, asking, here)
        if name == "normal":
            self.drawn[here] = made
        self._mark_detached(made, results, result)
        behind = frozenset(source.id for source in asking)  # a view of a value, made without recording, may be one
        behind = behind.union(*(self._behind.get(number, ()) for number in behind))
        self._behind |= dict.fromkeys((one.id for _, one in results), behind)

    def _pass_on(
        self, name: str, cut: Cut, sources: list[TrackedTensor], results: list[Any], result: object, here: Place
    ) -> None:
        """Process a call whose arguments an earlier line has cut off, such as `item` in `h.detach().item()`."""
        if cut.place == here and _returns_python_values(result) and not _is_array(result):
            self.cuts.setdefault((here, name), Cut(here, name, cut.sources))
        self._mark_detached(self._as_array(cut, here) if _is_array(result) else cut, results, result)
        known = [self._behind[source.id] for source in sources if source.id in self._behind]
        if known and len(known) == sum(source.id in self._of_value for source in sources):
            self._behind |= dict.fromkeys((one.id for _, one in results), frozenset[int]().union(*known))

    def _access_gradient(
        self, name: str, inputs: list[Any], sources: list[TrackedTensor], result: object, here: Place
    ) -> None:
        """Process a line that reads or sets the `.grad` of a tensor."""
        if name == "grad =":
            if sources and not any(source.id in self.earlier for source in sources[1:]):
                self._used.clear(sources[0].object_id)  # or replaced by another gradient
            return
        if result is None and len(inputs) == 1:
            if not inputs[0].retains_grad:
                self.missing[here] = sources[0], inputs[0].requires_grad
            elif self.calls:
                self.retained_late[here] = sources[0]
        elif isinstance(result, torch.Tensor):
            self.present.add(here)
        if len(sources) == 1 and not _READS_ONLY.search(here.text):
            self.steps.note_read(sources[0])
            self.reads.read(sources[0], here)

    def _memory_of_leaf(self, name: str, sources: list[TrackedTensor]) -> Memory | None:
        """Return the memory of a leaf if a call writes a value into it through an alias, which autograd does not record."""
        if name == "data =":
            return sources[1].memory  # the leaf gets that of the value
        alias = self._of_value.get(sources[0].id) if name == "copy_" else None
        return sources[0].memory if alias is not None and alias.how in ("data", "detach") else None

    def _follow_gradients(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note the values that are computed from a gradient: from the result of `autograd.grad`, or from `.grad`."""
        if name == "grad" and self.calls:
            call = self.calls[-1]
            targets = sources if len(sources) == 1 else call.asked
            for (_, tracked), target in zip(results, targets, strict=False):
                known = target if len(targets) == len(results) else None
                self.earlier.setdefault(tracked.id, EarlierGradient(tracked, call, known))
        elif torch.is_grad_enabled() and name != "detach" and (earlier := self._earlier_of(sources)) is not None:
            # A parameter that a step updates is not a function of its gradient.
            self.earlier |= {tracked.id: earlier for _, tracked in results if not tracked.leaf}

    def _follow_update(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note the values that are computed from a `.grad`, recorded or not, and the memory that one is written into."""
        is_read = name == "grad" and len(sources) == 1
        known = [source.id in self._of_gradient for source in sources]
        if is_read or any(known):
            self._of_gradient |= {tracked.id for _, tracked in results if not tracked.leaf}
        if any(known[1:]):
            self._gradient_into.add(sources[0].memory)

    def _earlier_of(self, sources: Iterable[TrackedTensor]) -> EarlierGradient | None:
        return next((self.earlier[source.id] for source in sources if source.id in self.earlier), None)

    def _add(self, inputs: list[Any], sources: list[TrackedTensor], node: int | None, here: Place) -> None:
        """Note a value without a graph that was computed from a gradient or a cut, if it is added to a tensor with a graph.

        `node` is the node of the sum.
        """
        for tensor, tracked in zip(inputs, sources, strict=True):
            cut = self._of_value.get(tracked.id)
            is_taken = cut is not None and (cut.how in _TAKES_VALUES or not (tensor.dim() or cut.how == NO_GRAD))
            if cut is not None and is_taken and not tensor.requires_grad:
                _, sums = self.detached_terms.setdefault(cut.place, (cut, {}))
                if node is not None and len(sums) < SOURCES:
                    sums[node] = here
            earlier = self.earlier.get(tracked.id)
            # A value that was detached on purpose has a cut. The gradient of a number may update it: `w - lr * grad`.
            if earlier is None or tensor.requires_grad or tracked.id in self._of_value or earlier.call.creates_graph:
                continue
            place, target = earlier.call.place, earlier.target
            if earlier.call.asked and earlier.gradient.shape and not tensor.dim():
                self.constants.setdefault(place, (earlier, here))
            elif tensor.dim() and node is not None and target is not None and target.leaf and not target.parameter:
                self.derivatives.setdefault(place, (earlier, target.id, here, node))

    def add_new_leaf(self, leaf: TrackedTensor, here: Place) -> None:
        """Process a tensor without a graph that no function returned. It may be in the storage of a known value."""
        storage, value = self._computed.get(leaf.storage, (None, None))
        if storage is None or value is None or storage.expired():
            return
        if leaf.leaf:
            self.steps.wrap(leaf, value)
        cut = self._of_value.get(value.id)
        if cut is None and not value.requires_grad:
            return
        if not leaf.leaf:
            if VARIABLE in here.text:  # autograd does not report its call
                self._of_value[leaf.id] = cut or self._cut(VARIABLE, [value], here)
            return
        self._of_value[leaf.id] = cut or self._cut(NEW_LEAF, [value], here)
        self.new_leaves[leaf.id] = here

    def _remember(self, computed: list[tuple[torch.Tensor, TrackedTensor]]) -> None:
        # A weak reference keeps no bytes alive but prevents the reuse of the storage's identifier.
        if len(self._computed) > COMPUTED:
            self._computed = {number: kept for number, kept in self._computed.items() if not kept[0].expired()}
        for tensor, tracked in computed:
            if tracked.storage and not tracked.leaf:
                self._computed[tracked.storage] = StorageWeakRef(tensor.untyped_storage()), tracked

    def origin(self, sources: Iterable[TrackedTensor]) -> Cut | None:
        """Return the cut that one of these values came from, or None. A comparison is rarely the fault, and `.detach()` often."""
        cuts = [self._of_value[source.id] for source in sources if source.id in self._of_value]
        return next((cut for cut in cuts if cut.how in _TAKES_VALUES), cuts[0] if cuts else None)

    def _cut(self, how: str, asking: list[TrackedTensor], here: Place) -> Cut:
        cut = self.cuts.setdefault((here, how), Cut(here, how))
        cut.last = len(self.calls)
        if len(cut.sources) < SOURCES:
            cut.sources |= {source.id: (source, source.node) for source in asking}
        return cut

    def _as_array(self, cut: Cut, here: Place) -> Cut:
        """Return the cut at which a value that had left the graph became an array, which cannot be followed."""
        array = self.cuts.setdefault((here, "numpy"), Cut(here, "numpy", cut.sources, behind=cut))
        self._of_memory |= {tracked.memory: array for tracked in cut.values}
        return array

    def _mark_detached(self, cut: Cut, results: list[Any], result: object) -> None:
        self._remember(results)
        self._of_value |= {tracked.id: cut for _, tracked in results}
        numbers = result if isinstance(result, list) else [result]
        # Small integers occur in every program; other numbers are unlikely to be equal by chance.
        self._of_number |= {number: cut for number in numbers[:LISTED] if isinstance(number, float) and number % 1}

    def _note_use(self, sources: list[TrackedTensor], numbers: Iterable[float], here: Place, node: int | None) -> None:
        of_values = ((self._of_value.get(source.id), self._behind.get(source.id)) for source in sources)
        written = (self._written.get(source.memory) for source in sources if source.leaf)
        others = (*written, *(self._of_number.get(number) for number in numbers))
        for cut, behind in (*of_values, *((cut, None) for cut in others)):
            if cut is None:
                continue
            if here not in cut.used_at and len(cut.used_at) < SOURCES:
                cut.used_at.append(here)
            if len(cut.uses) <= SOURCES:  # one more shows that the list is not complete
                cut.uses.append((node, len(self.calls), behind))

    def _cut_behind_numbers(self, name: str, results: list[Any], numbers: Iterable[float]) -> Cut | None:
        """Return the cut behind a tensor to which a number was added, or that an array's memory or numbers became, or None."""
        numbers = numbers if name in _SUMS else ()
        for tensor, tracked in results if name in _MADE_OF_NUMBERS else ():
            if tracked.memory in self._of_memory:
                return self._of_memory[tracked.memory]
            if self._of_number and tensor.is_floating_point() and tensor.numel() <= LISTED:
                numbers = tensor.detach().flatten().tolist()
        return next((self._of_number[number] for number in numbers if number in self._of_number), None)

    def hold(self, optimizer: torch.optim.Optimizer, parameters: Parameters, here: Place) -> None:
        """Record the parameters that an optimizer will update, and whether gradients of a backward were lost before."""
        self.optimized |= {tracked.id: tracked for _, tracked in parameters}
        self.optimizer_at = self.optimizer_at or here
        self.updated_at |= {tracked.id: here for _, tracked in parameters}
        for position, (_, tracked) in enumerate(parameters):
            self.first_held.setdefault(tracked.id, (len(self.calls), position))
        if self.steps.running_at is None:
            self._before_step = len(self.calls), len(self.cleared), len(self.empty_steps)
        if all(is_empty(tensor.grad) for tensor, _ in parameters):
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
        self,
        call: Backward,
        targets: list[TrackedTensor],
        roots: list[TrackedTensor],
        writes: list[WriteEvent],
        here: Place,
    ) -> None:
        """Process the start of a backward: the leaves that it reaches, and those whose gradients were used already."""
        asked, cut, of = targets if call.asked else [], self.origin(roots), self._earlier_of(roots)
        recording, nodes = torch.is_grad_enabled(), [root.node for root in roots]
        started = StartedBackward(
            here, roots, nodes, recording, cut, asked, call.creates_graph, bool(call.keeps_graph), of, len(writes)
        )
        if not recording and not started.has_graph:
            self.modes.go_on_without_recording()
        self.calls.append(started)
        self.reached |= {target.id: target for target in targets}
        self.find_updates(writes)
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
        count, before = max(codes.values(), default=0), self._hooks.get(tracked.object_id, 0)
        if count > before > 0:
            self.hooked[tracked.object_id] = tracked, count
        self._hooks[tracked.object_id] = count

    def find_updates(self, writes: list[WriteEvent]) -> None:
        """Find the leaves that were updated since the last call, whose gradients are used now. A second use is a fault."""
        new = [write for write in writes[self._writes :] if write.changed and not write.in_backward]
        updated = {
            write.memory: write.place for write in new
            if _UPDATE.search(write.place.text) or write.memory in self._gradient_into
        }  # fmt: skip
        self._writes = len(writes)
        self._gradient_into.clear()
        for tracked in self.reached.values() if updated else ():
            if tracked.memory in updated and (added := self._used.use(tracked.object_id)) is not None:
                self.used_twice.append((added, tracked, updated[tracked.memory]))

    def fill(self, targets: Parameters) -> None:
        """Record the leaves whose gradient a backward has filled. A nested one (of a checkpoint) adds leaves while it runs."""
        self.reached |= {target.id: target for _, target in targets}
        self.steps.fill(targets)


def _is_cut_off(result: torch.Tensor, inputs: list[Any]) -> bool:
    """Return whether a function returned a new leaf or, under `no_grad`, a view. Both require grad without a graph."""
    is_new = all(result is not value for value in inputs)
    is_view = not torch.is_grad_enabled() and node_of(result) is None
    return is_new and (is_view or autograd_flags(result) == (True, True))


def _returns_python_values(result: object) -> bool:
    """Return whether a function returned values that are not a tensor: a number, a list of numbers, or an array."""
    number = isinstance(result, int | float) and not isinstance(result, bool) and math.isfinite(result)
    return number or isinstance(result, list) or _is_array(result)


def _is_array(result: object) -> bool:
    return type(result).__name__ == "ndarray"
