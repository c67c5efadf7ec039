"""Select the gradients of a verdict: for each leaf, the gradient of the program and the correct gradient."""

from __future__ import annotations

import math

import torch

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.oracle.gradient_comparison import distance, nested, nested_pair
from autograder.tape.recording.verdict_types import Gradient


def shown_gradients(evidence: Evidence) -> dict[str, Gradient]:
    """Return each leaf's gradient by name: as returned, as in `.grad` at the end, or as the decisive backward computed it."""
    is_known = evidence.cloned_saves.error is None
    if evidence.got.returned:
        is_checked = is_known and not _below_unchecked(evidence)
        return {
            key: _beside(value, evidence.true.returned.get(key) if is_checked else None)
            for key, value in evidence.got.returned.items()
        }
    if evidence.plain.error is not None and evidence.true.returned:
        return {key: _beside(None, value) for key, value in evidence.true.returned.items()}
    names, call, unchecked = _names(evidence), _decisive(evidence), _below_unchecked(evidence)
    shown = {}
    for index in _in_order_of_appearance(evidence):
        got, true = _pair(evidence, call, index)
        is_checked = is_known or not _is_last(evidence, call)
        beside = _beside(got, true if is_checked and index not in unchecked else None, _ran(evidence, call, index))
        size = math.prod(evidence.got.keys[index][0])
        # The run kept only a part of a large gradient.
        is_part = isinstance(got, torch.Tensor) and got.numel() != size
        shown[names[index]] = Gradient(None, None, size, beside.off) if is_part else beside
    return shown


def _pair(evidence: Evidence, call: int | None, index: int) -> tuple[object, object]:
    """Return a leaf's gradient and the correct one: of the decisive backward if it reached the leaf, else `.grad` at the end."""
    other = evidence.pairs.get(index)
    if call is None or index not in evidence.got.calls[call]:
        return evidence.got.final[index], None if other is None else evidence.true.final[other]
    calls = evidence.true.calls
    return evidence.got.calls[call][index], calls[call].get(-1 if other is None else other) if call < len(
        calls
    ) else None


def _ran(evidence: Evidence, call: int | None, index: int) -> object:
    """Return the derivative of the computed loss, if it differs from the correct gradient."""
    number = len(evidence.true.calls) - 1 if call is None else call
    return evidence.ran.get((number, evidence.pairs.get(index, -1)))


def _below_unchecked(evidence: Evidence) -> set[int]:
    """Return the targets whose gradients passed a custom backward that does not match its forward, as far as it is known.

    Copies of saved tensors do not check the formula of a backward. If a modification did harm, they show its effect on
    that formula.
    """
    effect = evidence.untracked_effect
    odd = {f"{one.name}Backward" for one in effect.own_functions if one.found.answer != "slope"}
    if not odd or evidence.outcome != "correct" or effect.taken:
        return set()
    stack, seen = [node for node in evidence.state.graph.nodes if node.name in odd], set()
    while stack:
        node = stack.pop()
        seen.add(node.id)
        stack += [evidence.state.graph.nodes[one] for one in node.inputs if one is not None and one not in seen]
    leaves = {node.tensor for node in evidence.state.graph.nodes if node.id in seen}
    return {index for index, one in _tracked(evidence).items() if one and (one.id in leaves or one.node in seen)}


def _beside(got: object, true: object, ran: object = None) -> Gradient:
    listed, right = nested_pair(got, true)
    unlisted = got.numel() if isinstance(got, torch.Tensor) and listed is None else 0
    return Gradient(listed, right, unlisted, distance(got, true), nested(ran))


def _in_order_of_appearance(evidence: Evidence) -> list[int]:
    """Return the indices of the targets, in the order in which the program created the tensors."""
    known = {index: one.id for index, one in _tracked(evidence).items() if one}
    return sorted(range(len(evidence.got.targets)), key=lambda index: known.get(index, 1 << 60))


def _is_last(evidence: Evidence, call: int | None) -> bool:
    return call is None or call >= len(evidence.true.calls) - 1


def _decisive(evidence: Evidence) -> int | None:
    """Return the index of the backward whose gradients are shown, or None for `.grad` at the end."""
    if evidence.plain.error is not None and evidence.plain.calls and evidence.plain.calls[-1].error is not None:
        return len(evidence.plain.calls) - 1
    if evidence.wrong_call is not None:
        return evidence.wrong_call
    calls = evidence.got.calls
    returned = calls and evidence.plain.calls[-1].returns
    emptied = calls and all(g is None or not g.any() for g in evidence.got.final)
    return len(calls) - 1 if returned or emptied else None


def _names(evidence: Evidence) -> list[str]:
    names: list[str] = []
    seen = _tracked(evidence)
    for index in range(len(evidence.got.targets)):
        tracked = seen.get(index)
        name = (tracked and tracked.name) or f"leaf {index}"
        names.append(name if name not in names else f"{name} ({index})")
    return names


def _tracked(evidence: Evidence) -> dict[int, TrackedTensor | None]:
    """Return the observed run's tensor for each target of the plain run."""
    targets = evidence.watched.targets
    return {index: evidence.state.targets.get(targets[other]) for index, other in evidence.appearance.items()}
