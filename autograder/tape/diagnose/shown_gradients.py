"""Which gradients a verdict shows for each leaf: the one that the program got, beside the right one."""

from __future__ import annotations

import ast
import math
from collections import Counter

import torch
from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.program_text import trees_of
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.oracle.gradient_comparison import distance, nested, nested_pair
from autograder.tape.recording.verdict_types import Gradient


def shown_gradients(evidence: Evidence) -> dict[str, Gradient]:
    """Returns each leaf's gradient by name: as returned, as `.grad` was left, or as the decisive backward gave it."""
    is_known = evidence.cloned_saves.error is None
    if evidence.got.returned:
        is_checked = is_known and not _below_unchecked(evidence)
        return {
            key: _beside(value, evidence.true.returned.get(key) if is_checked else None)
            for key, value in evidence.got.returned.items()
        }
    if evidence.plain.error is not None and evidence.true.returned:
        return {key: _beside(None, value) for key, value in evidence.true.returned.items()}
    call, unchecked = _decisive(evidence), _below_unchecked(evidence)
    names, rounds = _names(evidence, call)
    shown = {}
    for index in _in_order_of_appearance(evidence):
        if (name := names[index]) is None:
            continue
        got, true = _pair(evidence, call, index)
        is_checked = is_known or not _is_last(evidence, call)
        beside = _beside(got, true if is_checked and index not in unchecked else None, _ran(evidence, call, index))
        size = math.prod(evidence.got.keys[index][0])
        # Of a large gradient only a part was kept, which is not to be read as the whole.
        is_part = isinstance(got, torch.Tensor) and got.numel() != size
        shown[name] = Gradient(None, None, size, beside.off) if is_part else beside
        if rounds[name] > 1:
            shown[name] = structs.replace(shown[name], rounds=rounds[name])
    return shown


def _pair(evidence: Evidence, call: int | None, index: int) -> tuple[object, object]:
    """Returns a leaf's gradient and the right one: of the decisive backward where it reached the leaf, else as `.grad` was left."""
    other = evidence.pairs.get(index)
    if call is None or index not in evidence.got.calls[call]:
        return evidence.got.final[index], None if other is None else evidence.true.final[other]
    calls = evidence.true.calls
    return evidence.got.calls[call][index], calls[call].get(-1 if other is None else other) if call < len(
        calls
    ) else None


def _ran(evidence: Evidence, call: int | None, index: int) -> object:
    """Returns the slope of the loss as it was computed, where that is not what is called right."""
    number = len(evidence.true.calls) - 1 if call is None else call
    return evidence.ran.get((number, evidence.pairs.get(index, -1)))


def _below_unchecked(evidence: Evidence) -> set[int]:
    """Returns the targets whose gradients went through a custom backward that is not the slope of its forward, as far as is known.

    Copies of what was saved say nothing of its formula. Where a write did harm, they show what it did to that very formula.
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
    """Returns the targets' numbers, the tensor that the program made first coming first."""
    known = {index: one.id for index, one in _tracked(evidence).items() if one}
    return sorted(range(len(evidence.got.targets)), key=lambda index: known.get(index, 1 << 60))


def _is_last(evidence: Evidence, call: int | None) -> bool:
    return call is None or call >= len(evidence.true.calls) - 1


def _decisive(evidence: Evidence) -> int | None:
    """Returns the number of the backward whose gradients are shown, or None to show what `.grad` holds at the end."""
    if evidence.plain.error is not None and evidence.plain.calls and evidence.plain.calls[-1].error is not None:
        return len(evidence.plain.calls) - 1
    if evidence.wrong_call is not None:
        return evidence.wrong_call
    calls = evidence.got.calls
    returned = calls and evidence.plain.calls[-1].returns
    emptied = calls and all(g is None or not g.any() for g in evidence.got.final)
    return len(calls) - 1 if returned or emptied else None


def _names(evidence: Evidence, decisive: int | None) -> tuple[list[str | None], Counter[str]]:
    """Return the name of each target, and how many leaves each name stands for.

    Leaves that rounds make anew under one name are one row: that of the decisive round, else the last one. The others have None.
    """
    seen, others, loops = _tracked(evidence), evidence.true, _loop_variables(evidence)
    found: list[str] = []
    for index in range(len(evidence.got.targets)):
        tracked, other = seen.get(index), evidence.pairs.get(index)
        known = others.names.get(others.targets[other]) if other is not None else None
        name = tracked.name if tracked else None
        if known and (name is None or "." in name or name in loops):
            name = known
        found.append(name or f"leaf {index}")
    calls_of = _calls_of(evidence)
    names: list[str | None] = []
    rows: dict[str, list[int]] = {}
    for index, name in enumerate(found):
        rounds = rows.setdefault(name, [])
        taken = {call for one in rounds for call in calls_of[one]} if len(rounds) < 2 else set(calls_of[rounds[-1]])
        if rounds and taken & set(calls_of[index]):
            names.append(f"{name} ({index})")
            continue
        names.append(name)
        rounds.append(index)
    for rounds in rows.values():
        shown = next((one for one in rounds if decisive in calls_of[one]), rounds[-1])
        for one in rounds:
            names[one] = names[one] if one == shown else None
    return names, Counter({name: len(rounds) for name, rounds in rows.items()})


def _loop_variables(evidence: Evidence) -> set[str]:
    loops = (
        node.target for tree in trees_of(evidence).values() for node in ast.walk(tree) if isinstance(node, ast.For)
    )
    return {node.id for target in loops for node in ast.walk(target) if isinstance(node, ast.Name)}


def _calls_of(evidence: Evidence) -> list[list[int]]:
    """Return for each target the numbers of the backward calls that had a gradient for it."""
    calls: list[list[int]] = [[] for _ in evidence.got.targets]
    for number, call in enumerate(evidence.got.calls):
        for index in call:
            calls[index].append(number)
    return calls


def _tracked(evidence: Evidence) -> dict[int, TrackedTensor | None]:
    """Returns what the observed run knows of each target of the plain run."""
    targets = evidence.watched.targets
    return {index: evidence.state.targets.get(targets[other]) for index, other in evidence.appearance.items()}
