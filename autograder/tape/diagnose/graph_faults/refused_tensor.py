"""Find the line that made a tensor which a later line may not copy, save or modify."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.errors import message_of
from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.observe.state import RunState
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

KIND = "tensor that a later line cannot use"
# Parts of PyTorch's messages, 2.6 to 2.15.
COPIED = "support the deepcopy protocol"
INFERENCE = ("nference tensor", "InferenceMode")
SWAPPED = re.compile(r"Couldn't swap (\w+\.(\w+))")
VIEW = ("view was created in no_grad mode", "function that returns multiple views")


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that made the tensor which the last call of the program could not use."""
    state, error, call = evidence.state, message_of(evidence.plain.error), evidence.state.flow.last_call
    problem = evidence.plain.problem
    if problem is not None and (swapped := SWAPPED.search(error)) and problem.line:
        yield from _referenced(state, swapped[1], problem.place(evidence.file))
    if call is None or problem is None or not problem.is_at(call.place):
        return
    at = call.place
    if COPIED in error and call.name == "__deepcopy__":
        yield from _not_a_leaf(state, call.inputs[:1], at)
    elif any(word in error for word in INFERENCE):
        yield from _inference(state, [one for one in call.inputs if one.counter.version is None], at)
    elif any(word in error for word in VIEW):
        yield from _view(state, call.inputs[:1], at)


def _not_a_leaf(state: RunState, tensors: list[TrackedTensor], at: Place) -> Iterator[GraphFault]:
    for tracked in tensors:
        if tracked.node is not None:
            made, name = state.graph.nodes[tracked.node].place, name_of(state, [tracked], in_english("a tensor"))
            told = in_english(
                "{name} is computed here, so it is not a leaf, and deepcopy at {place} cannot copy it.",
                name=name, place=line_of(at, made.file),
            )  # fmt: skip
            change = in_english("Keep it without its history (`.detach()`), or do not keep it in the copied object.")
            yield GraphFault(KIND, made, told, change)


def _inference(state: RunState, tensors: list[TrackedTensor], at: Place) -> Iterator[GraphFault]:
    for tracked in tensors[:1]:
        if (made := state.made_at(tracked)) is not None and made != at:
            known: dict[str, object] = {
                "name": name_of(state, [tracked], in_english("a tensor")), "place": line_of(at, made.file),
            }  # fmt: skip
            told = in_english("{name} is made in inference mode here, and {place} needs a normal tensor.", **known)
            change = in_english("Use torch.no_grad() instead, or pass a clone that is made outside of inference mode.")
            yield GraphFault(KIND, made, told, change)


def _view(state: RunState, tensors: list[TrackedTensor], at: Place) -> Iterator[GraphFault]:
    for tracked in tensors:
        made = state.made_at(tracked)
        if made is None or made == at:
            continue
        base = state.tensors.all[tracked.base] if tracked.base is not None else tracked
        known: dict[str, object] = {
            "name": name_of(state, [tracked], in_english("a view")), "place": line_of(at, made.file),
            "base": name_of(state, [base] if base is not tracked else [], in_english("the base")),
        }  # fmt: skip
        if tracked.unrecorded:
            told = in_english(
                "{name} is a view that is made here while recording is off; {place} modifies it while recording is on, "
                "which PyTorch does not allow.", **known,
            )  # fmt: skip
            change = in_english("Index {base} where recording is on, and modify that view.", **known)
        else:
            told = in_english(
                "{name} is one of several views that one call returns here (as unbind, chunk, split and iteration do); "
                "{place} modifies it in place, which PyTorch does not allow.", **known,
            )  # fmt: skip
            change = in_english("Take the view by an index of {base} instead.", **known)
        yield GraphFault(KIND, made, told, change)


def _referenced(state: RunState, key: str, at: Place | None) -> Iterator[GraphFault]:
    """Yield the line that took a view of a parameter which a later conversion of its module cannot swap."""
    for tracked in state.tensors.all:
        base = state.tensors.all[tracked.base] if tracked.base is not None else None
        made, name = state.made_at(tracked), state.name_of(tracked)
        if base is None or not base.parameter or made is None or name is None or at is None:
            continue
        if (state.name_of(base) or "").rpartition(".")[2] == key.rpartition(".")[2]:
            known: dict[str, object] = {"name": name, "key": key, "place": line_of(at, made.file)}
            told = in_english(
                "{name} is a view of {key}, so {place} cannot swap {key} with the converted tensor.", **known
            )
            yield GraphFault(KIND, made, told, in_english("Take the view after the conversion."))
            return
