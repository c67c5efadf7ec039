"""The sentence about a harm: the line, the modified tensor, and the layer that needed the old values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autograder.locale.translations import join_names, join_sentences, localized, translatable, translated
from autograder.tape.atlas.atlas_text import words_on_node
from autograder.tape.recording.schema import Recording, SavedEdge
from autograder.tape.recording.verdict_types import Gradient, Harm, Place, Verdict, line_of
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_name, is_wrong, percent, short_values
from autograder.view.text.naming import NAMELESS, count_noun, layer_names

CODE = 60  # the maximum number of columns of code in a sentence


@dataclass(frozen=True)
class HarmWords:
    """The texts on a harm."""

    sentence: str  # the line, the tensor and the node, without a full stop
    cause: str  # the cause of the outcome, for the title of a timeline
    # marks on the line that needs the tensor, on the one that modifies it, and on the backward call
    saved: str = translatable("{node} saves {tensor}")
    modified: str = translatable("modifies {tensor}")
    read: str = translatable("reads the new values")


SAVED = HarmWords(
    sentence=translatable("{code} overwrites {tensor}{through}, which {keeper} ({saved}) keeps for backward"),
    cause=translatable("{line} modified {tensor}{through} after {saved} had saved it"),
)
WORDS: dict[str, HarmWords] = {
    "unrecorded write": HarmWords(
        sentence=translatable(
            "{code} changes {tensor}{through} and autograd does not record it; {saved} computes with the new values"
        ),
        cause=translatable("{line} modified {tensor}{through}, and autograd did not record it"),
        saved=translatable("computes with the new values"),
        modified=translatable("modifies {tensor}; autograd does not record it"),
        read=translatable("no node stands for the modification"),
    ),
    "write during backward": HarmWords(
        sentence=translatable(
            "{code} overwrites {tensor}{through} while backward runs, and {keeper} ({saved}) still needs it"
        ),
        cause=translatable("{line} modified {tensor}{through} while backward ran"),
        modified=translatable("modifies {tensor} while backward runs"),
    ),
    "write into a passed gradient": HarmWords(
        sentence=translatable(
            "{code} changes a gradient in place, and another node received the same tensor from {keeper}"
        ),
        cause=translatable("{line} modified a gradient that another node also received"),
        saved=translatable("{node} passes one gradient to two nodes"),
        modified=translatable("modifies {tensor}, the gradient that {node} passes"),
        read=translatable("the other node reads the new values"),
    ),
    "shared gradient": HarmWords(
        sentence=translatable(
            "{code} makes {other}.grad share memory with {tensor}, and backward adds both gradients to it"
        ),
        cause=translatable("{line} made {other}.grad share memory with {tensor}"),
        saved="",
        modified=translatable("{other}.grad shares memory with {tensor}"),
        read=translatable("adds both gradients to this memory"),
    ),
    "write into a kept gradient": HarmWords(
        sentence=translatable("{code} changes {tensor}, which the program kept without a copy ({saved})"),
        cause=translatable("{line} modified {tensor}, which {saved} kept without a copy"),
        saved=translatable("keeps {tensor} without a copy"),
        read=translatable("the gradient that was kept has the new values"),
    ),
    "write before recomputation": HarmWords(
        sentence=translatable(
            "{code} overwrites {tensor}{through}, and the checkpointed block ({saved}) reads it again in backward"
        ),
        cause=translatable("{line} modified {tensor}{through}, which the checkpointed block read again in backward"),
        saved=translatable("a checkpointed block reads {tensor}"),
        read=translatable("the block reads the new values"),
    ),
}
"""Kind of harm → its texts; `SAVED` for other kinds."""


def harm_words(harm: Harm, recording: Recording) -> HarmWords:
    """Return the texts on a harm."""
    file, templates, node = recording.programs[0].file, WORDS.get(harm.kind, SAVED), keeper(harm, recording)
    known = {
        "code": f"`{clip(harm.mutated_at[0].text, CODE)}`" if len(harm.mutated_at) == 1 else translated("the program"),
        "line": where(harm.mutated_at[0], file),
        "tensor": harmed_tensor(harm),
        "through": through(harm),
        "saved": where(harm.saved_at, file),
        "node": node,
        "keeper": node,
        "other": (harm.through or translated("another leaf")).removesuffix(".grad"),
    }
    words = {name: translated(text, **known) if text else "" for name, text in vars(templates).items()}
    if templates.saved == SAVED.saved and harm.saved_version is not None:
        words["saved"] = translated("{words}, version {version}", words=words["saved"], version=harm.saved_version)
    return HarmWords(**words)


def sentence_of_harm(harm: Harm, recording: Recording) -> str:
    """Return the description of a harm, in one sentence without a full stop."""
    lines = join_names(line_labels(harm.mutated_at, recording.programs[0].file))
    return translated("At {lines}, {words}", lines=lines, words=harm_words(harm, recording).sentence)


def harmed_tensor(harm: Harm) -> str:
    """Return the name of the harmed tensor, or a phrase if the Recording contains a placeholder instead of a name."""
    return translated(NAMELESS) if harm.tensor.endswith(f" of {harm.saved_by}") else harm.tensor


def through(harm: Harm) -> str:
    """Return a phrase about the alias through which a harm's tensor was modified, to follow its name; "" without an alias."""
    if not harm.through or harm.through == harm.tensor:
        return ""
    return translated(" through {alias}", alias=harm.through)


def where(place: Place, file: str) -> str:
    """Return the number of a line, with the name of its file if that is not the program's own."""
    return localized(line_of(place, file))


def line_labels(places: Iterable[Place], file: str) -> list[str]:
    """Return the number of each line, with the name of its file if that differs from the previous line's."""
    named, labels = file, []
    for place in places:
        labels.append(where(place, named))
        named = place.file
    return labels


def keeper(harm: Harm, recording: Recording) -> str:
    """Return the node that relied on the old values, with its layer, such as "AddmmBackward0 of net.0.out"."""
    others = {"AccumulateGrad": translated("backward"), "checkpoint": translated("the checkpoint")}
    if harm.edge is None:
        return others.get(harm.saved_by, harm.saved_by)
    nodes = {node.id: node for node in recording.nodes}
    node = nodes[next(edge.node for edge in recording.saved if edge.id == harm.edge)]
    layer = layer_names(recording).get(node.id, "")
    if layer:
        return translated("{node} of {layer}", node=harm.saved_by, layer=layer)
    return translated("{node} in {scope}", node=harm.saved_by, scope=node.scope[-1]) if node.scope else harm.saved_by


def words_on_saves(harm: Harm, recording: Recording) -> str:
    """Return a sentence on the tensors that the saving operation keeps, with advice; "" without a saving operation.

    For a leaf, such as a parameter that `optimizer.step()` updates, the advice is another order, not a copy.
    """
    edge = next((saved for saved in recording.saved if saved.id == harm.edge), None)
    if edge is None:
        return ""
    leaves = {tensor.id for tensor in recording.tensors if tensor.kind in ("parameter", "leaf")}
    reason = words_on_node(harm.saved_by, advice=False)
    if not reason or edge.tensor not in leaves or not harm.kind.endswith("counted write"):
        return words_on_node(harm.saved_by)
    if any(fault.kind == "graph used again" for fault in recording.verdict.graph_faults):
        return translated("{sentence}.", sentence=reason)
    writes = [write for step in recording.steps for write in step.writes if edge.id in write.harmed]
    if any(write.operation == "accumulate" for write in writes):
        return translated(
            "{kept}. backward() adds to a gradient in the memory of {tensor}: save a copy of it, with `.clone()`.",
            kept=reason, tensor=harmed_tensor(harm),
        )  # fmt: skip
    lines = join_names(line_labels(harm.mutated_at, recording.programs[0].file))
    if _precedes_loss(edge, recording):
        return translated(
            "{kept}. Save a copy of {tensor} with `.clone()`, or run {lines} first.",
            kept=reason, tensor=harmed_tensor(harm), lines=lines,
        )  # fmt: skip
    places = _updates(edge, leaves, recording) or harm.mutated_at
    first, last = line_labels((places[0], places[-1]), recording.programs[0].file)
    if places[0] != places[-1]:
        return translated(
            "{kept}. Call backward() before {first}, or compute the loss again after {last}.",
            kept=reason, first=first, last=last,
        )  # fmt: skip
    return translated(
        "{kept}. Call backward() before {lines}, or compute the loss again after it.", kept=reason, lines=first
    )


def _updates(edge: SavedEdge, leaves: set[int], recording: Recording) -> tuple[Place, ...]:
    """Return the lines that modified leaves which the backward call of a saved tensor needs, from its save to this call."""
    of_leaves = {saved.id for saved in recording.saved if saved.tensor in leaves}
    places = {place for harm in recording.verdict.harms if harm.edge in of_leaves for place in harm.mutated_at}
    start = next((step.index for step in recording.steps if edge.id in step.saved), 0)
    steps = recording.steps[start : _call_of(edge, recording)]
    return tuple(write.place for step in steps for write in step.writes if write.place in places)


def _call_of(edge: SavedEdge, recording: Recording) -> int | None:
    """Return the step whose backward call used a saved tensor, or None if it is not known."""
    return next((visit.step for visit in recording.backward if visit.node == edge.node), None)


def _precedes_loss(edge: SavedEdge, recording: Recording) -> bool:
    """Return whether an operation on the way to the loss modified a saved tensor, as a look-up with max_norm does."""
    called = _call_of(edge, recording)
    root = next((visit.node for visit in recording.backward if visit.step == called), edge.node)
    writing = (step for step in recording.steps if any(edge.id in write.harmed for write in step.writes))
    return any(step.nodes and max(step.nodes) < root for step in writing)


def consequence(harm: Harm, verdict: Verdict, limit: int | None = None) -> str:
    """Return the effect on backward as a sentence, with values of at most `limit` characters; "" if the harm says enough."""
    off = gradient_error_sentence(verdict.gradients, limit) if verdict.outcome != "raises-backward" else ""
    if off or verdict.outcome == "silently-wrong":
        return off
    if harm.saved_version is None or harm.saved_version == harm.version_now:
        return ""
    values = {"saved": harm.saved_version, "version": harm.version_now}
    refused = translated(
        "It was at version {saved} when it was saved and is at {version}, so backward() raises an error.", **values
    )
    unneeded = "" if harm.bytes_changed else translated("No value changed: PyTorch counts writes, not changes.")
    return join_sentences([refused, unneeded])


def gradient_error_sentence(gradients: dict[str, Gradient], limit: int | None = None) -> str:
    """Return the most wrong gradient and its error as a sentence, or "". Values of more than `limit` characters are left out."""
    wrong = {name: gradient for name, gradient in gradients.items() if gradient.off or is_wrong(gradient)}
    if not wrong:
        return ""
    named = {name: gradient for name, gradient in wrong.items() if not name.startswith("leaf ")} or wrong
    name, worst = max(named.items(), key=lambda pair: float("inf") if pair[1].off is None else pair[1].off)
    more = count_noun(len(wrong) - 1, "; 1 more is wrong", "; {count} more are wrong") if len(wrong) > 1 else ""
    values = {"got": short_values(worst.got), "right": short_values(worst.true), "more": more}
    values["leaf"] = gradient_name(name, worst)
    if not worst.off:
        return translated("{leaf} is {got}; the right value is {right}{more}.", **values)
    values["off"] = percent(worst.off)
    if worst.true is None or values["got"] == values["right"] or (limit is not None and len(values["right"]) > limit):
        return translated("{leaf} is off by {off}{more}.", **values)
    return translated("{leaf} is off by {off}: {got} where {right} is right{more}.", **values)
