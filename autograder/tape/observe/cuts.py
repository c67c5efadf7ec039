"""Find the lines at which values leave the graph, and the later lines that use these values."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.graph_walk import node_of
from autograder.tape.run.storages import Memory

NO_GRAD = "no_grad"
NEW_LEAF, VARIABLE, WRITTEN, WRITTEN_PART = "new leaf", "Variable(", "written", "written part"
SOURCES = 500  # maximum number of tensors stored per cut, because a line in a loop creates new ones in each iteration
COMPUTED = 10_000  # number of stored storages above which freed ones are removed
LISTED = 64  # maximum number of elements of a new tensor that are compared with numbers that left the graph
SUMS = {
    "add", "add_", "sub", "sub_", "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "rsub", "__isub__", "mse_loss",
}  # fmt: skip
_TAKES_VALUES = {WRITTEN_PART, "data", "detach", "detach_", "item", "tolist", "numpy", "__array__", "__float__"}
_MADE_OF_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor", "from_numpy", "full", "scalar_tensor"}
# lines that copy values into other tensors, and calls that make new parameters from the values of others
COPIED = re.compile(r"load_state_dict|copy_\(|\.data\s*=[^=]")
_REPLACES = re.compile(r"^(?!.*load_state_dict).*state_dict\(|\w+_norm\(|parametriz")
_ALIASES = ("data", "detach")
_PART = re.compile(r"\.(data|detach\(\))\[.*\] = ")
_DRAWS = {"randn", "randn_like", "normal", "normal_"}
_PRODUCTS = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}


Sources = dict[int, tuple[TrackedTensor, int | None]]


@dataclass(eq=False)
class Cut:
    """A line at which values leave the graph: `sources` have a graph, but the result of `how` does not."""

    place: Place
    # the function, such as "detach", "item" or "argmax"; `NO_GRAD` if recording was off; `NEW_LEAF` for a leaf that no
    # function mode receives: `nn.Parameter(h)`, `Variable(h.data, requires_grad=True)` (PyTorch 2.13); `WRITTEN` for a
    # leaf whose values were set through an alias: `w.data = h`, `w.data.copy_(h)`; `WRITTEN_PART` for `x.data[0] = h`
    how: str
    # the values and their nodes, by id of the tensor
    sources: Sources = field(default_factory=dict)
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

    @property
    def is_number(self) -> bool:
        """Whether the line makes a plain number of a value, or a list of numbers."""
        return self.how in ("item", "tolist", "__float__", "__int__", "__index__")

    @property
    def is_copy(self) -> bool:
        """Whether the line copies leaves, as `copy.deepcopy(model)` does."""
        are_leaves = all(tracked.leaf for tracked in self.values)
        return self.how == "data" and ".data" not in self.place.text and are_leaves

    @property
    def is_early_copy(self) -> bool:
        """Whether leaves were copied only before the first backward call, so that the copy is the model to train."""
        replaces = _REPLACES.search(self.place.text) is not None and all(tracked.leaf for tracked in self.values)
        return (self.is_copy or replaces) and self.last == 0

    def sources_in(self, nodes: Container[int | None], calls: int) -> Sources:
        """Return the sources that one of these nodes, or one after this number of backward calls, uses; all if this is not known."""
        behind = [sources for node, before, sources in self.uses if node in nodes or before == calls]
        if None in behind or len(self.uses) > SOURCES:
            return self.sources
        used = frozenset().union(*(sources for sources in behind if sources))
        return {number: source for number, source in self.sources.items() if number in used}


class Cuts:
    """The cuts of a run, and the values that come from them."""

    def __init__(self) -> None:
        self.all: dict[tuple[Place, str], Cut] = {}
        self.calls = 0  # number of backward calls so far
        self.new_leaves: dict[int, Place] = {}  # by id, the lines at which values that left the graph became leaves
        # by line, the cuts by which `Normal.sample` draws (PyTorch 2.13), and those by scaled noise while recording is off
        self.drawn: dict[Place, Cut] = {}
        # by line that takes values without their graph, that cut, and the first sums (node and line) that add a value
        # computed from it
        self.terms: dict[Place, tuple[Cut, dict[int, Place]]] = {}
        self._of_value: dict[int, Cut] = {}
        self._behind: dict[int, frozenset[int]] = {}  # by id of such a value, the sources of its cut that it came from
        self._of_number: dict[float, Cut] = {}
        self._of_memory: dict[Memory, Cut] = {}
        self._written: dict[Memory, Cut] = {}  # by memory of a leaf, the line that wrote a value with a graph into it
        self._of_part: dict[Memory, Cut] = {}  # likewise a part of a tensor, as `x.data[0] = h`
        # the last value with a graph in each storage, or the last value that left it
        self._computed: dict[int, tuple[StorageWeakRef, TrackedTensor]] = {}
        self._noise, self._scaled = set[Memory](), set[Memory]()

    def of(self, value: TrackedTensor) -> Cut | None:
        """Return the cut that a value came from, or None."""
        return self._of_value.get(value.id) or (None if value.requires_grad else self._of_part.get(value.memory))

    def origin(self, sources: Iterable[TrackedTensor]) -> Cut | None:
        """Return the cut that one of these values came from, or None. A comparison is rarely the fault, and `.detach()` often."""
        cuts = [cut for source in sources if (cut := self.of(source)) is not None]
        return next((cut for cut in cuts if cut.how in _TAKES_VALUES), cuts[0] if cuts else None)

    def detach_in_place(self, source: TrackedTensor, here: Place) -> None:
        """Process the start of `detach_`, which removes the node from which the sources of the tensor are known."""
        if source.node is not None:
            self._of_value[source.id] = self._cut("detach_", [source], here)

    def scale_noise(self, name: str, sources: list[TrackedTensor], results: list[Any]) -> None:
        """Note noise, and its products with values that had a graph, if they are computed while recording is off."""
        memories = {tracked.memory for _, tracked in results} if name in _DRAWS or name in _PRODUCTS else set()
        if name in _DRAWS:
            self._noise |= memories
        elif memories and not torch.is_grad_enabled():
            had_graph = any(source.requires_grad or self.of(source) for source in sources)
            is_noise = any(source.memory in self._noise and not source.requires_grad for source in sources)
            self._scaled |= memories if had_graph and is_noise else set()

    def write(self, name: str, inputs: list[Any], sources: list[TrackedTensor], here: Place) -> None:
        """Note a value with a graph that a call writes into a leaf through an alias, which autograd does not record."""
        if len(inputs) < 2:
            return
        has_graph, values = node_of(inputs[-1]) is not None, sources[1:2]
        if not has_graph:  # the line may take the value without its graph first, as in `w.data = h.data`
            taken = self.of(sources[1])
            is_taken = taken is not None and taken.how in _ALIASES and taken.place == here
            values = [value for value, node in taken.sources.values() if node is not None] if is_taken else []  # type: ignore[union-attr]
            values = [value for value in values if value.id != sources[0].id]  # `w.data *= 2` writes w's own values
        alias = self.of(sources[0]) if name == "copy_" else None
        if values and name == "data =":
            self._written[sources[1].memory] = self._cut(WRITTEN, values, here)  # the leaf gets this memory
        elif values and alias is not None and alias.how in _ALIASES:
            self._written[sources[0].memory] = self._cut(WRITTEN, values, here)
        elif has_graph and name == "__setitem__" and _PART.search(here.text):
            self._of_part[sources[0].memory] = self._cut(WRITTEN_PART, sources[-1:], here)

    def leave(
        self, name: str, asking: list[TrackedTensor], sources: list[TrackedTensor], results: list[Any], result: object,
        here: Place,
    ) -> None:  # fmt: skip
        """Process a call whose results do not have the graph of its arguments `asking`, a part of all arguments."""
        cut = self._cut(name if torch.is_grad_enabled() else NO_GRAD, asking, here)
        if name == "normal":
            self.drawn[here] = cut
        self._mark(cut, results, result)
        behind = frozenset(source.id for source in asking)
        for source in sources if cut.how == NO_GRAD else ():
            earlier = self.of(source)  # another layer, at a line before
            if earlier is not None and earlier is not cut and earlier.how == NO_GRAD and len(cut.sources) < SOURCES:
                known = self._behind.get(source.id, frozenset()) & earlier.sources.keys()
                cut.sources |= {number: earlier.sources[number] for number in known}
        # The next layer gets values that had left the graph already; a view made without recording may be in `asking`.
        behind = behind.union(*(self._behind.get(source.id, ()) for source in sources))
        self._behind |= dict.fromkeys((tracked.id for _, tracked in results), behind)

    def draw(self, sources: list[TrackedTensor], here: Place) -> None:
        """Note a line that takes scaled noise out of the graph."""
        if any(source.memory in self._scaled for source in sources) and (here, NO_GRAD) in self.all:
            self.drawn[here] = self.all[here, NO_GRAD]

    def pass_on(
        self, name: str, sources: list[TrackedTensor], results: list[Any], result: object, here: Place,
        numbers: Iterable[float],
    ) -> None:  # fmt: skip
        """Process a call whose arguments an earlier line has cut off, such as `item` in `h.detach().item()`."""
        cut = self.origin(sources) or self._behind_numbers(name, results, numbers)
        if cut is None:
            return
        if cut.place == here and returns_python_values(result) and not _is_array(result):
            self.all.setdefault((here, name), Cut(here, name, cut.sources))
        self._mark(self._as_array(cut, here) if _is_array(result) else cut, results, result)
        layers = [self._behind[source.id] for source in sources if source.id in self._behind]
        if layers and len(layers) == sum(source.id in self._of_value for source in sources):
            self._behind |= dict.fromkeys((tracked.id for _, tracked in results), frozenset[int]().union(*layers))

    def use(self, sources: list[TrackedTensor], numbers: Iterable[float], here: Place, node: int | None) -> None:
        """Process a computation with a graph, which may use values that left it. `node` is the node of its result."""
        if not torch.is_grad_enabled():
            if (written := self.origin(sources[1:])) is not None:  # the graph has it if a recorded line uses the leaf
                self._written[sources[0].memory] = written
            return
        of_values = ((self.of(source), self._behind.get(source.id)) for source in sources)
        memories = [source.memory for source in sources if source.leaf]
        written_into = (self._written.get(memory) or self._of_part.get(memory) for memory in memories)
        others = (*written_into, *(self._of_number.get(number) for number in numbers))
        for cut, behind in (*of_values, *((cut, None) for cut in others)):
            if cut is None:
                continue
            if here not in cut.used_at and len(cut.used_at) < SOURCES:
                cut.used_at.append(here)
            if len(cut.uses) <= SOURCES:  # one more shows that the list is not complete
                cut.uses.append((node, self.calls, behind))

    def add_term(self, tensor: torch.Tensor, tracked: TrackedTensor, node: int | None, here: Place) -> None:
        """Process a summand of a tensor with a graph. `node` is the node of the sum."""
        cut = self.of(tracked)
        if cut is None or tracked.requires_grad:
            return
        # A whole forward without recording computes a constant, such as the log-probability of an old policy.
        is_forward = cut.how == NO_GRAD and any(source.leaf for source in cut.values)
        if cut.how in _TAKES_VALUES or not (tensor.dim() or is_forward):
            _, sums = self.terms.setdefault(cut.place, (cut, {}))
            if node is not None and len(sums) < SOURCES:
                sums[node] = here

    def remember(self, computed: list[tuple[torch.Tensor, TrackedTensor]]) -> None:
        """Note values by their storage, so that a leaf which is made of one is recognized."""
        # A weak reference keeps no bytes alive but prevents the reuse of the storage's identifier.
        if len(self._computed) > COMPUTED:
            self._computed = {number: kept for number, kept in self._computed.items() if not kept[0].expired()}
        for tensor, tracked in computed:
            if tracked.storage and not tracked.leaf:
                self._computed[tracked.storage] = StorageWeakRef(tensor.untyped_storage()), tracked

    def value_in(self, leaf: TrackedTensor) -> TrackedTensor | None:
        """Return the value in whose storage a tensor is that no function returned, or None."""
        storage, value = self._computed.get(leaf.storage, (None, None))
        return value if storage is not None and not storage.expired() else None

    def add_new_leaf(self, leaf: TrackedTensor, value: TrackedTensor, here: Place) -> None:
        """Process a tensor without a graph that no function returned, in the storage of a value."""
        cut = self.of(value)
        if cut is None and not value.requires_grad:
            return
        if leaf.leaf:
            self._of_value[leaf.id] = cut or self._cut(NEW_LEAF, [value], here)
            self.new_leaves[leaf.id] = here
        elif VARIABLE in here.text:  # autograd does not report its call
            self._of_value[leaf.id] = cut or self._cut(VARIABLE, [value], here)

    def _cut(self, how: str, asking: list[TrackedTensor], here: Place) -> Cut:
        cut = self.all.setdefault((here, how), Cut(here, how))
        cut.last = self.calls
        if len(cut.sources) < SOURCES:
            cut.sources |= {source.id: (source, source.node) for source in asking}
        return cut

    def _as_array(self, cut: Cut, here: Place) -> Cut:
        """Return the cut at which a value that had left the graph became an array, which cannot be followed."""
        array = self.all.setdefault((here, "numpy"), Cut(here, "numpy", cut.sources, behind=cut))
        self._of_memory |= {tracked.memory: array for tracked in cut.values}
        return array

    def _mark(self, cut: Cut, results: list[Any], result: object) -> None:
        self.remember(results)
        self._of_value |= {tracked.id: cut for _, tracked in results}
        numbers = result if isinstance(result, list) else [result]
        # Small integers occur in every program; other numbers are unlikely to be equal by chance.
        self._of_number |= {number: cut for number in numbers[:LISTED] if isinstance(number, float) and number % 1}

    def _behind_numbers(self, name: str, results: list[Any], numbers: Iterable[float]) -> Cut | None:
        """Return the cut behind a tensor to which a number was added, or that an array's memory or numbers became, or None."""
        numbers = numbers if name in SUMS else ()
        for tensor, tracked in results if name in _MADE_OF_NUMBERS else ():
            if tracked.memory in self._of_memory:
                return self._of_memory[tracked.memory]
            if self._of_number and tensor.is_floating_point() and tensor.numel() <= LISTED:
                numbers = tensor.detach().flatten().tolist()
        return next((self._of_number[number] for number in numbers if number in self._of_number), None)


def returns_python_values(result: object) -> bool:
    """Return whether a function returned values that are not a tensor: a number, a list of numbers, or an array."""
    number = isinstance(result, int | float) and not isinstance(result, bool) and math.isfinite(result)
    return number or isinstance(result, list) or _is_array(result)


def _is_array(result: object) -> bool:
    return type(result).__name__ == "ndarray"
