"""The results of a program's runs, each compared with the plain run, which alone may have been compiled."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from msgspec.structs import replace

from autograder.errors import message_of
from autograder.tape.observe.backward_watcher import node_of_visit
from autograder.tape.observe.left_gradients import FirstStep
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import tree_of_file
from autograder.tape.oracle.all_runs import TOLERANCE, TOLERANCE_IF_CHANGED, Runs
from autograder.tape.oracle.gradient_comparison import Gradients, aligned, gap, gradients_of
from autograder.tape.oracle.untracked_writes import UntrackedEffect
from autograder.tape.recording.verdict_types import GraphFault, Outcome, Place, Problem

N = TypeVar("N", bound=ast.AST)
S = TypeVar("S", bound=ast.stmt)
# Compiled functions add in another order, and keep float32 where eager mode rounds intermediate results to bfloat16.
LOW_PRECISION = (torch.float16, torch.bfloat16)
LOW_PRECISION_LIMIT = 5e-2
ROUNDING = 1e-5  # relative to the largest gradient

FREEZES = re.compile(r"\.requires_grad = False|\.requires_grad_\((requires_grad=)?False\)")
_CLEARS = re.compile(r"^[\w.]+\.zero_grad\(")


@dataclass(frozen=True)
class Evidence:
    """The results of all runs of a program, compared with each other."""

    runs: Runs

    @property
    def explaining(self) -> Evidence:
        """The evidence for the search for harms that explain the outcome."""
        return self

    @property
    def appearance(self) -> dict[int, int]:
        """For each target of the plain run, its number in the observed run."""
        return {index: index for index in range(min(len(self.got.targets), len(self.watched.targets)))}

    @property
    def file(self) -> str:
        """The name of the program's file, as in `Place.file`."""
        return self.state.statements.program.file

    @property
    def state(self) -> RunState:
        """The state of the observed run."""
        return self.runs.observer.state

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The tree of each file by its name in the report. Files that are not valid Python are left out."""
        statements = self.state.statements
        trees = {statements.program.shown(file): tree_of_file(file) for file in statements.files}
        return {file: tree for file, tree in trees.items() if tree is not None}

    @cached_property
    def code(self) -> str:
        """The code of all files, without comments."""
        return "\n".join(map(ast.unparse, self.trees.values()))

    @cached_property
    def visited(self) -> dict[int, GraphNode]:
        """The nodes that the backward calls of the observed run visited, by number."""
        return self.state.graph.below(node for call in self.state.flow.calls for node in call.nodes)

    @cached_property
    def nodes_of_losses(self) -> dict[int, GraphNode]:
        """The nodes that a backward call visited, and would visit without the cuts, by number."""
        flow, graph, nodes = self.state.flow, self.state.graph, dict(self.visited)
        while True:
            sources = (cut.sources_in(nodes, len(flow.calls)) for cut in flow.cuts.all.values())
            above = graph.below(node for chosen in sources for _, node in chosen.values())
            if above.keys() <= nodes.keys():
                return nodes
            nodes |= above

    @cached_property
    def reached_elsewhere(self) -> set[tuple[int, ...]]:
        """The shapes of the leaves that only backward calls outside of the recorded part reached."""
        calls, excerpt = self.runs.plain.calls, self.runs.excerpt
        if excerpt is None:
            return set()
        shapes = {leaf: key[0] for call in calls for leaf, key in zip(call.numbers, call.keys, strict=True)}
        recorded = {leaf for call in calls[excerpt.first - 1 : excerpt.last] for leaf in call.numbers}
        return {shape for leaf, shape in shapes.items() if leaf not in recorded}

    def recorded_steps(self, steps: Iterable[FirstStep]) -> dict[int, FirstStep]:
        """Return those of these first steps of the whole run whose parameters were recorded, by id of the parameter."""
        before = self.runs.excerpt.first - 1 if self.runs.excerpt else 0
        known = {(step.calls - before, step.position): step for step in steps}
        return {number: known[at] for number, at in self.state.flow.first_held.items() if at in known}

    def lines_with(self, text: str | re.Pattern[str]) -> list[Place]:
        """Return the lines that ran and contain a text, as often as they ran."""
        places = (step.place for step in self.state.finished_steps)
        return [place for place in places if place and re.search(text, place.text)]

    @cached_property
    def frozen_at(self) -> Place | None:
        """The last line that froze a leaf without which the last backward call has no graph; None if it has another reason.

        Either an earlier call of its line reached this leaf, or the optimizer that was cleared last holds only frozen ones.
        """
        flow, graph = self.state.flow, self.state.graph
        earlier = [call for call in flow.calls[:-1] if call.place == flow.calls[-1].place and call.has_graph]
        leaves = graph.leaves_below([node for call in earlier for node in call.nodes])
        is_any = not earlier and self._is_optimizer_frozen()
        places = [place for leaf, place in flow.frozen_at if is_any or leaf in leaves]
        return places[-1] if places else None

    def _is_optimizer_frozen(self) -> bool:
        """Return whether no parameter of the optimizer whose gradients were cleared last required grad."""
        cleared = self.lines_with(_CLEARS)
        name = cleared[-1].text.partition(".zero_grad(")[0] if cleared else ""
        frozen = self.state.flow.steps.frozen_optimizers
        targets = [(re.split(r",\s*", place.text.partition(" = ")[0]), position) for place, position in frozen]
        return any(name == names[position % len(names)] for names, position in targets)

    def uses_log_probabilities(self, name: str = "log_prob") -> bool:
        """Return whether the program computes log probabilities, through which a loss may depend on how a sample was drawn.

        `name` is a part of the dumped syntax tree.
        """
        return any(name in ast.dump(tree) for tree in self.trees.values())

    def around(self, file: str, line: int, kind: type[S]) -> list[S]:
        """Return the statements of a kind that cover a line, in the order of a walk through the tree; [] without a tree."""
        tree = self.trees.get(file)
        nodes = (node for node in (_statements(tree) if tree else ()) if isinstance(node, kind))
        return [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]

    def statement_at(self, place: Place) -> ast.stmt | None:
        """Return the innermost statement that covers a line."""
        statements = self.around(place.file, place.line, ast.stmt)
        return max(statements, key=lambda node: (node.lineno, node.col_offset), default=None)

    def nodes(self, *kinds: type[N]) -> Iterator[tuple[str, N]]:
        """Yield the nodes of these types in the trees, each with the name of its file."""
        return ((file, node) for file, node in self._walked if isinstance(node, kinds))

    @cached_property
    def _walked(self) -> list[tuple[str, ast.AST]]:
        """All nodes of the trees. Each kind of fault asks for some, and a walk of 30 files takes a second."""
        return [(file, node) for file, tree in self.trees.items() for node in ast.walk(tree)]

    @cached_property
    def faults(self) -> dict[str, tuple[GraphFault, ...]]:
        """The graph faults that were searched so far, by kind."""
        return {}

    @cached_property
    def got(self) -> Gradients:
        """The gradients of the plain run."""
        return gradients_of(self.runs.plain)

    @property
    def true(self) -> Gradients:
        """The correct gradients: those of the run with cloned saves, corrected by finite differences."""
        return self._corrected[0]

    @property
    def ran(self) -> dict[tuple[int, int], torch.Tensor]:
        """Derivative of the computed loss, by number of the backward and of the target, if it differs from `true`."""
        return self._corrected[1]

    @cached_property
    def _corrected(self) -> tuple[Gradients, dict[tuple[int, int], torch.Tensor]]:
        true = gradients_of(self.runs.cloned_saves)
        return true, _correct(true, self.got, self.runs.untracked_effect)

    @cached_property
    def watched(self) -> Gradients:
        """The gradients of the observed run."""
        return gradients_of(self.runs.observed)

    @cached_property
    def pairs(self) -> dict[int, int]:
        """For each target of the plain run, its number in the run with cloned saves."""
        return aligned(self.got, self.true)

    @cached_property
    def repeats(self) -> bool:
        """Whether the plain and the observed run gave the same result, up to the end of the shorter one if a run was cut."""
        if self.runs.plain.is_truncated or self.runs.observed.is_truncated:
            return self.got.first_difference(self.watched, TOLERANCE_IF_CHANGED) is None
        plain, observed = self.runs.plain.problem, self.runs.observed.problem
        # The point at which the stack is full depends on our own calls.
        is_depth = plain and observed and plain.type == observed.type == "RecursionError"
        return bool(is_depth or _comparable(plain) == _comparable(observed)) and _same(self.got, self.watched)

    @cached_property
    def limit(self) -> float:
        """The largest relative difference between two gradients that counts as equal."""
        return self.runs.limit

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of the plain run."""
        if self.runs.plain.error is not None:
            return "raises-backward" if self.runs.plain.in_backward else "raises-forward"
        last = {call.thread: call for call in self.runs.plain.calls}
        if any(call.error is not None for call in last.values()):
            return "raises-backward"
        return "silently-wrong" if self.runs.cloned_saves.error is None and self.is_wrong else "correct"

    @property
    def error_message(self) -> str:
        """The message of the error that ended the plain run, or "" without one."""
        return message_of(self.runs.plain.error)

    @property
    def raised_nodes(self) -> set[int | None]:
        """The ids of the nodes that backward entered and did not leave."""
        return {node_of_visit(visit, self.state) for visit in self.runs.trace.visits if not visit.passed}

    @property
    def is_wrong(self) -> bool:
        """Whether a gradient of the plain run is wrong."""
        return bool(self.runs.untracked_effect.wrong) or self.copies_differ

    @property
    def copies_differ(self) -> bool:
        """Whether a gradient of the plain run differs from the run with cloned saves, or its correction by finite differences."""
        if self.wrong_call is not None or self.runs.plain.is_truncated or self.runs.cloned_saves.is_truncated:
            return self.wrong_call is not None
        pairs = [(self.got.final[i], self.true.final[j]) for i, j in self.pairs.items()]
        pairs += [(value, self.true.returned.get(key)) for key, value in self.got.returned.items()]  # type: ignore[misc]
        return any(self.differs(got, true) for got, true in pairs)

    @cached_property
    def wrong_call(self) -> int | None:
        """The index of the first backward that gave a wrong gradient, or None."""
        for number, (got, true) in enumerate(zip(self.got.calls, self.true.calls, strict=False)):
            if any(self.differs(got[i], true.get(self.pairs[i])) for i in got if i in self.pairs):
                return number
        return None

    @cached_property
    def not_finite_call(self) -> int | None:
        """The index of the first backward with a right gradient that contains nan or inf, or None."""
        return self.true.first_not_finite()

    def differs(self, got: object, true: object) -> bool:
        """Return whether two gradients differ."""
        return gap(got, true) > self.limit


@dataclass(frozen=True)
class CompiledEvidence(Evidence):
    """The evidence for a program with compiled functions. Only `plain` ran compiled, all other runs were eager."""

    eager: Evidence  # the evidence with an eager plain run

    @property
    def explaining(self) -> Evidence:
        """The evidence for the search for harms, which needs the lines of an eager run."""
        return self.eager

    @cached_property
    def _corrected(self) -> tuple[Gradients, dict[tuple[int, int], torch.Tensor]]:
        return self.eager.true, {}  # the correct gradients are those of the eager program

    @cached_property
    def appearance(self) -> dict[int, int]:
        """For each target of the plain run, its number in the observed run. A compiled graph has another order of targets."""
        return aligned(self.got, self.watched)

    @property
    def repeats(self) -> bool:
        """Whether two eager runs gave the same result."""
        return self.eager.repeats

    @cached_property
    def limit(self) -> float:
        """The largest relative difference between a compiled and an eager gradient that counts as equal."""
        types = {getattr(torch, tracked.dtype) for tracked in self.state.tensors.all}
        gradients = (gradient for call in self.runs.plain.calls for gradient in call.gradients)
        types |= {gradient.dtype for gradient in gradients if gradient is not None}
        return LOW_PRECISION_LIMIT if types & set(LOW_PRECISION) else TOLERANCE

    @cached_property
    def noise(self) -> float:
        """The largest absolute value that may be the rounding error of a zero, such as the gradient of a bias before a batch norm."""
        gradients = (gradient for call in (*self.got.calls, *self.true.calls) for gradient in call.values())
        largest = (float(gradient.abs().max()) for gradient in gradients if gradient is not None and gradient.numel())
        return ROUNDING * max(largest, default=0.0)

    def differs(self, got: object, true: object) -> bool:
        """Return whether a compiled and a correct gradient differ."""
        pair = [gradient for gradient in (got, true) if isinstance(gradient, torch.Tensor)]
        is_noise = len(pair) == 2 and not any((gradient.abs() > self.noise).any() for gradient in pair)
        return not is_noise and super().differs(got, true)


@functools.lru_cache(maxsize=128)
def _statements(tree: ast.Module) -> tuple[ast.stmt, ...]:
    """Return all statements of a file. The result is cached, because hundreds of lines may be queried."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _comparable(problem: Problem | None) -> Problem | None:
    """Return an exception without the function that it names for a saved view: our reads recreate its node (PyTorch 2.13)."""
    return problem and replace(problem, message=re.sub(r", which is output \d+ of \w+", "", problem.message))


def _correct(true: Gradients, got: Gradients, untracked_effect: UntrackedEffect) -> dict[tuple[int, int], torch.Tensor]:
    """Add the corrections of finite differences to the gradients of the run with cloned saves.

    If the corrected gradient equals the program's (for example if a sigmoid's output was zeroed, its derivative and the
    gradient are both zero), the saved values are the fault and the uncorrected gradient is the intended one; the
    corrected gradient is then returned.
    """
    ran = {}
    for (number, position), missing in untracked_effect.corrections.items():
        call = true.calls[number]
        index = list(call)[position]
        before = call[index]
        after = missing if before is None else (before.double() + missing).to(before.dtype)
        left = list(got.calls[number].values())[position : position + 1] if number < len(got.calls) else []
        if before is not None and left and gap(left[0], after) <= TOLERANCE_IF_CHANGED:
            ran[number, index] = after
            continue
        call[index] = after
        if number == len(true.calls) - 1:
            for key, value in true.returned.items():
                if gap(value, before) == 0.0 and before is not None:
                    true.returned[key] = after
            if gap(true.final[index], before) == 0.0:
                true.final[index] = after
    return ran


def _same(left: Gradients, right: Gradients) -> bool:
    if len(left.calls) != len(right.calls) or len(left.targets) != len(right.targets):
        return False
    calls = zip(left.calls, right.calls, strict=True)
    return all(gap(a.get(i), b.get(i)) <= TOLERANCE_IF_CHANGED for a, b in calls for i in a) and all(
        gap(value, right.returned.get(key)) <= TOLERANCE_IF_CHANGED for key, value in left.returned.items()
    )
