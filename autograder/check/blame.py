"""Descriptions of the line in an answer that made a gradient wrong."""

from __future__ import annotations

from autograder.locale.translations import in_english, translatable, translated
from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.verdict_types import Harm, NamedLine, Place
from autograder.view.text.harm_sentences import harmed_tensor

_OVERWRITES = translatable("line {line}: {text} writes into the memory of {tensor}, which {node} keeps for backward")


def describe(harm: Harm | None) -> str:
    """Return the modification that broke a saved tensor and the reason why it was saved; "" without a modification."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[0]
    told = translated(_OVERWRITES, line=place.line, text=place.text, tensor=harmed_tensor(harm), node=harm.saved_by)
    # Advice on what to write instead would give the answer away.
    kept = words_on_node(harm.saved_by, advice=False) if harm.edge is not None else ""
    return told + translated(" ({parts})", parts=kept) if kept else told


def unrecorded_line(harm: Harm | None, missing: Place | None) -> NamedLine | None:
    """Return the line of a modification that autograd did not record; None if a saved tensor was modified or every write was recorded.

    Args:
        harm: the first harm of the run, if any.
        missing: the place of an unrecorded modification. It may not be the cause; the reader has to judge that.
    """
    if harm is not None and harm.mutated_at:
        place = harm.mutated_at[0]
        if harm.kind == "unrecorded write":
            told = in_english(
                "writes into {tensor} and autograd does not record it; {node} computes with the new values",
                tensor=harm.tensor,
                node=harm.saved_by,
            )
            return NamedLine(place, told, "unseen")
        # Nodes that the check creates to start backward from the returned values have no line of the answer.
        missing = place if harm.edge is None and not harm.saved_at.text else None
    told = in_english(
        "changes values whose history stays as it was: autograd does not know where the new ones come from"
    )
    return NamedLine(missing, told, "unseen") if missing else None
