"""Find values that are kept without a copy: they have the memory of a parameter, so each step of the optimizer changes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import FaultKind, name_of
from autograder.tape.recording.verdict_types import GraphFault, line_of

_FROM_MODULE = re.compile(r"(?P<target>[\w.]+)\.load_state_dict\((?P<source>[\w.]+)\.state_dict\(\)")
_KEEPS = re.compile(r"(append\(|\] = ).*(\.data\b|\.detach\(\)|\.state_dict\(\))")


def _copied_onto_themselves(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that copy a state into a module whose tensors it holds, so that each step also changed the state."""
    for place in (place for place, times in evidence.state.flow.copied.items() if any(map(all, times.values()))):
        effect = (
            "state.same_memory|it copies each tensor onto itself, so it restores nothing: the state is not a copy, and each "
            "step of the optimizer changes it as well."
        )
        change = "state.copy|Keep a copy of the values: `copy.deepcopy(module.state_dict())`."
        if (owners := _FROM_MODULE.search(place.text)) is not None:
            effect = (
                "state.same_module|it copies each tensor onto itself: {target} and {source} have the same parameters, so a "
                "step changes both."
            )
            change = "state.copy_module|Give {target} parameters of its own: `copy.deepcopy({source})`."
        if owners is None or owners["target"] != owners["source"]:
            known = {} if owners is None else owners.groupdict()
            yield COPIED_ONTO_THEMSELVES.at(place, effect, change, **known)


COPIED_ONTO_THEMSELVES = FaultKind("copy onto itself", _copied_onto_themselves)


def _shared(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that give a tensor the memory of a parameter, or keep a parameter's values of several steps in its memory."""
    state, flow = evidence.state, evidence.state.flow
    held = {leaf.object_id for leaf in flow.optimized.values()} | {leaf.object_id for leaf in flow.reached.values()}
    for place, (leaf, value) in flow.shared.items():
        owners = [tracked for tracked in flow.optimized.values() if tracked.memory is value.memory]
        if owners and leaf.object_id not in held:
            yield SHARED.at(
                place,
                "memory.of_parameter|{leaf} gets the memory of {names} here, not a copy, so each step of the optimizer "
                "changes both.",
                "memory.copy_values|Copy the values: `.data.copy_(...)` or load_state_dict.",
                leaf=name_of(state, [leaf], "the tensor"), names=name_of(state, owners, "a parameter"),
            )  # fmt: skip
    for place, parameter in flow.steps.kept.items():
        if _KEEPS.search(place.text):
            yield SHARED.at(
                place,
                "memory.kept|each iteration keeps a tensor with the memory of {names}, not a copy, so each step of the "
                "optimizer changes all of them.",
                "memory.clone|Keep a copy of the values: `.clone()`.",
                names=name_of(state, [parameter], "a parameter"),
            )  # fmt: skip
    yield from _repeated(evidence)


def _repeated(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that append one tensor in several iterations, if it was modified in place in between."""
    state = evidence.state
    for place, (tensor, count) in state.flow.repeated.items():
        name, part, _ = (state.name_of(tensor) or "").partition("[")
        append = rf"^{re.escape(name)}\.append\((.+?)\)(?: *#|$)" if part else rf"\.append\(({re.escape(name)})\)"
        texts = [step.place.text if name and step.place else "" for step in state.finished_steps]
        appended = {number: match[1] for number, text in enumerate(texts) if (match := re.search(append, text))}
        rounds = list(appended)[-count:]  # those of the last list
        between = state.finished_steps[rounds[0] : rounds[-1]] if rounds else []
        if any(write.memory is tensor.memory for step in between for write in step.writes):
            yield SHARED.at(
                between[0].place or place,
                "memory.appended|each iteration appends the same tensor, {name}, which is modified in place: {place} gets "
                "it {count} times.",
                "memory.append_copy|Append a copy: `{name}.clone()`.",
                name=appended[rounds[0]], place=line_of(place, place.file), count=count,
            )  # fmt: skip


SHARED = FaultKind("values without a copy", _shared)
