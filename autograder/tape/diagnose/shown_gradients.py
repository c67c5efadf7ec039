"""Select the gradients of a verdict, and say how they were checked: for each leaf, the gradient of the program and the correct one."""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from msgspec import structs

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.observe.statements import FILES
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.oracle.gradient_comparison import distance, length, nested, nested_pair
from autograder.tape.recording.verdict_types import Check, Gradient, note_on_line
from autograder.tape.run.storages import is_zero

COPIES, DIFFERENCES = "copies of saved tensors", "finite differences"
FUNCTIONS = "finite differences of each custom Function"
WORDS: dict[str, Literal["yes", "no", "not known"]] = {
    "derivative": "yes", "wrong": "no", "choice": "no", "unknown": "not known",
}  # fmt: skip


def checks_of(evidence: Evidence) -> Iterator[Check]:
    """Yield the answer of each oracle. Answers without a fault do not mean that everything was checked."""
    yield Check(COPIES, "Did every backward use the values that were saved?", *_of_copies(evidence))
    yield Check(DIFFERENCES, "Is every gradient the derivative of its loss?", *_of_differences(evidence))
    for check in evidence.runs.untracked_effect.own_functions:
        question = f"Is the backward of {check.name} the derivative of its forward?"
        yield Check(FUNCTIONS, question, WORDS[check.found.answer], DETAILS[check.found.answer])


DETAILS = {
    "derivative": "",
    "wrong": "They differ at the values of this run and near them.",
    "choice": "They differ, but its forward is constant in an input or returns one: that may be intended.",
    "unknown": "It does not run alone in double precision, or has a kink or a jump here.",
}


def notes_on_formulas(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each custom Function or PyTorch operation with a backward that is not the derivative of its forward."""
    for check in evidence.runs.untracked_effect.own_functions:
        forward, backward = check.found.forward, check.found.backward
        if check.found.answer == "wrong":
            ratio = Message("function.constant_forward|its forward is constant here")
            if abs(forward) > 1e-9:
                ratio = Message("function.times|{factor} times it", factor=f"{backward / forward:.3g}")
            message = Message(
                "function.not_derivative|the backward of {name} does not match the derivative of its forward: along a "
                "random direction its output changes by {forward}, but its backward returns {backward} ({ratio}). If "
                "that is intended, ignore this note.",
                name=check.name, forward=f"{forward:.4g}", backward=f"{backward:.4g}", ratio=ratio,
            )  # fmt: skip
            yield note_on_line(check.place, evidence.file, message)
        elif check.found.answer == "choice":
            message = Message(
                "function.choice|the backward of {name} is not the derivative of its forward, which is constant in an "
                "input or returns one. A straight-through estimator and a gradient reversal are like this on purpose, "
                "so it is not judged.", name=check.name,
            )  # fmt: skip
            yield note_on_line(check.place, evidence.file, message)
    for check in evidence.runs.untracked_effect.twice:
        message = Message(
            "function.second_derivative|the backward of {name} is right, but the derivative of its result is not: "
            "along a random direction the result changes by {forward}, and a second backward computes {backward}. "
            "Compute it from saved inputs: a tensor that forward computed and kept on ctx has no graph.",
            name=check.name, forward=f"{check.found.forward:.4g}", backward=f"{check.found.backward:.4g}",
        )  # fmt: skip
        yield note_on_line(check.place, evidence.file, message)
    if evidence.outcome == "correct" and has_uncompared_derivatives(evidence):
        yield Message(
            "function.second_not_compared|Second derivatives through a custom Function were not compared; "
            "--check-gradients compares them."
        )
    for name, place in evidence.runs.untracked_effect.operations:
        message = Message(
            "gradient.pytorch_differs|PyTorch {version}'s derivative of {name} does not match finite differences of "
            "this call alone. No in-place modification of the program causes this; use another operation.",
            version=torch.__version__.partition("+")[0], name=name,
        )  # fmt: skip
        yield note_on_line(place, evidence.file, message)


def has_uncompared_derivatives(evidence: Evidence) -> bool:
    """Return whether the graph of a gradient contains a custom backward, and no finite differences of it were taken."""
    effect, calls = evidence.runs.untracked_effect, evidence.runs.plain.calls[:-1]
    is_asked = effect.taken or effect.note is not None
    return bool(effect.own_functions) and not is_asked and any(call.creates_graph for call in calls)


def _of_copies(evidence: Evidence) -> tuple[Any, ...]:
    number = len(evidence.runs.plain.calls)
    calls = f"{number} call{'' if number == 1 else 's'} of backward"
    if not number:
        return "not asked", "The program never called backward."
    if evidence.runs.cloned_saves.error is not None:
        return "not known", f"The run with copies raised {type(evidence.runs.cloned_saves.error).__name__}."
    failed = evidence.outcome == "raises-backward" or (evidence.outcome == "silently-wrong" and evidence.copies_differ)
    if failed or evidence.runs.excerpt is None or evidence.runs.excerpt.checked >= number:
        return "no" if failed else "yes", calls
    return "yes", f"the first {evidence.runs.excerpt.checked} of {calls}"


def _of_differences(evidence: Evidence) -> tuple[Any, ...]:
    effect = evidence.runs.untracked_effect
    if effect.wrong:
        return "no", effect.note or f"{len(effect.wrong)} of the gradients are not."
    if effect.note:
        return "not known", effect.note
    if effect.taken:
        return "yes", "along a random direction of the leaves"
    return "not asked", "--check-gradients takes them."


def shown_gradients(evidence: Evidence) -> dict[str, Gradient]:
    """Return each leaf's gradient by name: as returned, as in `.grad` at the end, or as the decisive backward computed it."""
    is_known, plain = evidence.runs.cloned_saves.error is None, evidence.runs.plain
    if evidence.got.returned:
        right = evidence.true.returned if is_known and not _below_unchecked(evidence) else {}
        return {key: _compared(value, right.get(key)) for key, value in evidence.got.returned.items()}
    if plain.error is not None and evidence.true.returned:
        return {key: _compared(None, value) for key, value in evidence.true.returned.items()}
    call, unchecked = _decisive(evidence), _below_unchecked(evidence)
    appeared = {index: tensor.id for index, tensor in tracked_targets(evidence).items() if tensor}
    rows, order = {}, {}
    for name, row in _rows(evidence).items():
        index = _target_of(evidence, row, call)
        rows[index] = name, len(row.targets)
        order[index] = min((appeared.get(target, 1 << 60), target) for target in row.targets)
    pairs = {index: _pair(evidence, call, index) for index in rows}
    largest = max((length(true) for _, true, _ in pairs.values()), default=0.0)
    shown = {}
    for index in sorted(rows, key=order.__getitem__):
        got, true, place = pairs[index]
        is_checked = is_known or not (call is None or call >= len(evidence.true.calls) - 1)
        number = len(evidence.true.calls) - 1 if call is None else call
        is_open = index in unchecked or _is_uncorrected(evidence, number, index)
        true = true if is_checked and not is_open else None
        compared = _compared(got, true, evidence.ran.get((number, evidence.pairs.get(index, -1))), largest)
        size = math.prod(evidence.got.keys[index][0])
        # The run kept only a part of a large gradient.
        is_part = isinstance(got, torch.Tensor) and got.numel() < size
        (name, rounds), compared = rows[index], Gradient(None, None, size, compared.off) if is_part else compared
        compared = structs.replace(compared, rounds=rounds) if rounds > 1 else compared
        is_returned = place is not None and place < len(plain.calls) and plain.calls[place].returns
        shown[name] = structs.replace(compared, returned=True) if is_returned else compared
    return shown


def _pair(evidence: Evidence, call: int | None, index: int) -> tuple[object, object, int | None]:
    """Return a leaf's gradient, the correct one, and the index of their backward call; None for `.grad` at the end.

    They are those of the decisive backward if it reached the leaf, else `.grad`. If that was cleared, they are those of
    the last backward that filled it and whose gradients were kept as a whole.
    """
    other, calls, final = evidence.pairs.get(index), evidence.got.calls, evidence.got.final[index]
    if call is None or index not in calls[call]:
        filled = {number: given for number, call in enumerate(calls) if (given := call.get(index)) is not None}
        if not filled or (final is not None and not is_zero(final)):
            return final, None if other is None else evidence.true.final[other], None
        size = math.prod(evidence.got.keys[index][0])
        call = next((number for number in reversed(filled) if filled[number].numel() == size), max(filled))
    true = evidence.true.calls[call] if call < len(evidence.true.calls) else {}
    return calls[call][index], true.get(-1 if other is None else other), call


def _below_unchecked(evidence: Evidence) -> set[int]:
    """Return the targets whose gradients passed a custom backward that does not match its forward, as far as it is known.

    Copies of saved tensors do not check the formula of a backward. If a modification did harm, they show its effect on
    that formula.
    """
    effect = evidence.runs.untracked_effect
    is_twice = has_uncompared_derivatives(evidence)
    checks = (check for check in effect.own_functions if is_twice or check.found.answer != "derivative")
    unchecked = {f"{check.name}Backward" for check in checks}
    if not unchecked or evidence.outcome != "correct" or effect.taken:
        return set()
    graph = evidence.state.graph
    nodes = graph.below(node.id for node in graph.nodes if node.name in unchecked)
    leaves, targets = {node.tensor for node in nodes.values()}, tracked_targets(evidence)
    return {index for index, target in targets.items() if target and (target.id in leaves or target.node in nodes)}


def _is_uncorrected(evidence: Evidence, number: int, index: int) -> bool:
    """Return whether only finite differences give the correct gradient of a target in a backward call, and did not."""
    effect, other = evidence.runs.untracked_effect, evidence.pairs.get(index)
    targets = list(evidence.true.calls[number]) if effect.uncorrected else []
    position = targets.index(other) if other in targets else None
    return effect.is_undecided or (number, position) in effect.uncorrected


def _compared(got: object, true: object, ran: object = None, largest: float = 0.0) -> Gradient:
    listed, right = nested_pair(got, true)
    unlisted = got.numel() if isinstance(got, torch.Tensor) and listed is None else 0
    return Gradient(listed, right, unlisted, distance(got, true, largest), nested(ran))


def _decisive(evidence: Evidence) -> int | None:
    """Return the index of the backward whose gradients are shown, or None for `.grad` at the end."""
    plain = evidence.runs.plain
    if plain.error is not None and plain.calls and plain.calls[-1].error is not None:
        return len(plain.calls) - 1
    if evidence.wrong_call is not None:
        return evidence.wrong_call
    calls = evidence.got.calls
    return len(calls) - 1 if calls and plain.calls[-1].returns else None


@dataclass(frozen=True)
class _Row:
    """Leaves that the program created under the same name, one after another."""

    shape: tuple[int, ...]  # 0 instead of the size of the batch
    targets: list[int] = field(default_factory=list)  # their indices, at least one
    calls: set[int] = field(default_factory=set)  # indices of the backward calls that reached one of them


def _rows(evidence: Evidence) -> dict[str, _Row]:
    """Return the rows by name. Two leaves of one backward call have separate rows, and those of different shapes.

    Leaves that differ only in the size of the batch, which may be smaller in the last iteration, share a row, and so do the
    parameters of models that had one name, one after another: the name means the last, or the one with a fault.
    """
    rows: dict[str, _Row] = {}
    numbers: Counter[tuple[str, int]] = Counter()
    for target, name in enumerate(_names(evidence)):
        shape, reached = tuple(evidence.got.keys[target][0]), set(evidence.got.of_target.get(target, ()))
        shape = (0, *shape[1:]) if len(shape) > 1 else shape
        shape = () if "." in name else shape
        first = name, min(reached, default=-1)
        # The second leaf of this name in each backward call is in row 2, so leaves of several iterations share a row.
        number = max(numbers[first], 1)
        while True:
            row = rows.setdefault(name if number == 1 else f"{name} ({number})", _Row(shape))
            if row.shape == shape and not row.calls & reached:
                break
            number += 1
        numbers[first] = number
        row.targets.append(target)
        row.calls.update(reached)
    return rows


def _target_of(evidence: Evidence, row: _Row, call: int | None) -> int:
    """Return the leaf of a row to show: one that the decisive backward reached, else one with a wrong gradient, else the last."""
    if len(row.targets) == 1:
        return row.targets[0]
    if call is not None and (reached := [target for target in row.targets if target in evidence.got.calls[call]]):
        return reached[0]
    is_wrong = evidence.outcome == "silently-wrong"
    wrong = (target for target in row.targets if is_wrong and evidence.differs(*_pair(evidence, call, target)[:2]))
    return next(wrong, row.targets[-1])


def _names(evidence: Evidence) -> list[str]:
    """Return an expression for each target. Loop variables, `self` and numbers are used only without an alternative."""
    seen, others = tracked_targets(evidence), evidence.true
    loops = set().union(*map(_bound_by_for, evidence.trees.values()))
    names: list[str | None] = []
    for index in range(len(evidence.got.targets)):
        tracked, other = seen.get(index), evidence.pairs.get(index)
        name = tracked.name if tracked else None
        known = None if other is None else others.names.get(others.targets[other])
        is_weak = name is None or "." in name or name.partition("[")[0] in loops
        names.append((known if is_weak else None) or name)
    if None in names:
        _name_as_before(evidence, names)
    return [name or f"leaf {index}" for index, name in enumerate(names)]


def _name_as_before(evidence: Evidence, names: list[str | None]) -> None:
    """Give the leaves of calls that only the plain run made the names of an earlier call with leaves of the same shapes."""
    earlier: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for call in evidence.got.calls:
        shapes = tuple(evidence.got.keys[target][0] for target in call)
        for target, before in zip(call, earlier.get(shapes, ()), strict=False):
            names[target] = names[target] or names[before]
        earlier[shapes] = list(call)


def rename_targets(evidence: Evidence) -> None:
    """Give each target's tensor the name of its row, so that all sentences use one name."""
    for tracked, name in zip(tracked_targets(evidence).values(), _names(evidence), strict=False):
        if tracked is not None and not name.startswith("leaf "):
            tracked.name, tracked.path = name, name if tracked.parameter and "." in name else None


@functools.lru_cache(maxsize=FILES)
def _bound_by_for(tree: ast.Module) -> set[str]:
    """Return the names that `for` binds anywhere in a file."""
    loops = (node.target for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension))
    return {node.id for target in loops for node in ast.walk(target) if isinstance(node, ast.Name)}


def tracked_targets(evidence: Evidence) -> dict[int, TrackedTensor | None]:
    """Return the observed run's tensor for each target of the plain run."""
    targets = evidence.watched.targets
    return {index: evidence.state.targets.get(targets[other]) for index, other in evidence.appearance.items()}
