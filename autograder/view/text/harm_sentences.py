"""The one sentence about a harm: which line, what it overwrites, and which layer needed the old values."""

from __future__ import annotations

from autograder.tape.recording.schema import Node, Recording
from autograder.tape.recording.verdict_types import Gradient, Harm, Place, Verdict
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import is_wrong, percent, short_values
from autograder.view.text.naming import join_names

CODE = 60
"""Columns of code inside a sentence, beyond which it is cut."""

OVERWRITES = "{code} overwrites {tensor}{through}, which {keeper} ({saved}) keeps for backward"
SENTENCES: dict[str, str] = {
    "unrecorded write": "{code} changes {tensor}{through} and autograd does not record it; {saved} computes with the new values",
    "write during backward": "{code} overwrites {tensor}{through} while backward runs, and {keeper} ({saved}) still needs it",
    "write into a passed gradient": "{code} changes a gradient in place, and another node received the same tensor from {keeper}",
    "shared gradient": "{code} gives {other}.grad the memory of {tensor}, and backward adds to it for both",
    "write into a kept gradient": "{code} changes {tensor}, which the program kept without a copy ({saved})",
    "write before recomputation": "{code} overwrites {tensor}{through}, and the checkpointed block ({saved}) reads it again in backward",
}
"""Kind of harm → its sentence, without an end; `OVERWRITES` for the others."""


def sentence_of_harm(harm: Harm, recording: Recording) -> str:
    """Returns what a harm is, in one sentence without a full stop."""
    file = recording.programs[0].file
    lines = join_names([where(place, file) for place in harm.mutated_at])
    words = SENTENCES.get(harm.kind, OVERWRITES).format(
        code=f"`{clip(harm.mutated_at[0].text, CODE)}`" if len(harm.mutated_at) == 1 else "the program",
        tensor=harm.tensor,
        through=f" through {harm.through}" if harm.through and harm.through != harm.tensor else "",
        other=(harm.through or "another leaf").removesuffix(".grad"),
        keeper=keeper(harm, recording),
        saved=where(harm.saved_at, file),
    )
    return f"At {lines}, {words}"


def where(place: Place, file: str) -> str:
    """Returns the number of a line, with the name of its file where that is not the program's own."""
    return f"line {place.line}" if place.file == file else f"{place.file}, line {place.line}"


def keeper(harm: Harm, recording: Recording) -> str:
    """Returns what relied on the old values: a node with its layer, such as "AddmmBackward0 of net.0.out"."""
    others = {"AccumulateGrad": "backward", "checkpoint": "the checkpoint"}
    if harm.edge is None:
        return others.get(harm.saved_by, harm.saved_by)
    nodes = {node.id: node for node in recording.nodes}
    node = nodes[next(edge.node for edge in recording.saved if edge.id == harm.edge)]
    layer = _layer(node, nodes, recording)
    inside = f" of {layer}" if layer else f" in {node.scope[-1]}" if node.scope else ""
    return f"{harm.saved_by}{inside}"


def _layer(node: Node, nodes: dict[int, Node], recording: Recording) -> str:
    """Returns the module whose parameters a node computes with, by the name of a parameter; "" where it has none."""
    below = [nodes[one] for one in node.inputs if one is not None]
    below += [
        nodes[one]
        for near in below
        if near.name.startswith(("T", "Transpose"))
        for one in near.inputs
        if one is not None
    ]
    parameters = {one.tensor for one in below if one.name.endswith("AccumulateGrad")}
    names = [
        change.name.rpartition(".")[0]
        for step in recording.steps
        for change in step.names
        if change.tensor in parameters and "." in change.name
    ]
    return next((name for name in names if not name.startswith("self")), names[0] if names else "")


def consequence(harm: Harm, verdict: Verdict) -> str:
    """Returns what backward does with it, as a sentence; "" where nothing is to be added."""
    if verdict.outcome == "silently-wrong":
        return how_far_off(verdict.gradients)
    if harm.saved_version is None or harm.saved_version == harm.version_now:
        return ""
    unneeded = "" if harm.bytes_changed else " No value changed: PyTorch counts writes, not changes."
    return f"It was at version {harm.saved_version} when it was saved and is at {harm.version_now}, so backward refuses it.{unneeded}"


def how_far_off(gradients: dict[str, Gradient]) -> str:
    """Returns which gradient is wrong by most, and by how much, as a sentence; "" where none is known to be wrong."""
    wrong = {name: one for name, one in gradients.items() if one.off or is_wrong(one)}
    if not wrong:
        return ""
    name, worst = max(wrong.items(), key=lambda pair: float("inf") if pair[1].off is None else pair[1].off)
    beside = f": {short_values(worst.got)} where {short_values(worst.true)} is right" if worst.true is not None else ""
    more = f"; so are {len(wrong) - 1} more" if len(wrong) > 2 else "; so is 1 more" if len(wrong) == 2 else ""
    if not worst.off:
        return f"{name}.grad is {short_values(worst.got)} where {short_values(worst.true)} is right{more}."
    return f"{name}.grad is off by {percent(worst.off)}{beside}{more}."
