"""The line of an answer that made a gradient wrong, in words."""

from __future__ import annotations

from autograder.locale.translations import translatable, translated
from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.verdict_types import Harm, Place

_DESCRIPTIONS = {
    "unrecorded write": translatable(
        "line {line}: {text} writes into {tensor} and autograd does not record it; {node} computes with the new values"
    ),
}
"""Kind of harm → what it did; for the others, what the write harmed."""

_OVERWRITES = translatable("line {line}: {text} writes into the memory of {tensor}, which {node} keeps for backward")


def describe(harm: Harm | None) -> str:
    """Returns the write that did harm, what it harmed, and what the operation that saved it keeps; "" for none."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[0]
    if (
        harm.edge is None and not harm.saved_at.text
    ):  # a node of the check's own, which starts backward in what came back
        return describe_unrecorded(place)
    told = translated(
        _DESCRIPTIONS.get(harm.kind, _OVERWRITES),
        line=place.line,
        text=place.text,
        tensor=harm.tensor,
        node=harm.saved_by,
    )
    kept = (
        words_on_node(harm.saved_by).partition(":")[0] if harm.edge is not None else ""
    )  # the rest would be the answer
    return f"{told} ({kept})" if kept else told


def describe_unrecorded(place: Place) -> str:
    """Returns the write that a history does not tell of; whether it is the reason, the reader has to judge."""
    return translated(
        "line {line}: {text} changes values whose history stays as it was: autograd does not know where the new ones come from",
        line=place.line,
        text=place.text,
    )
