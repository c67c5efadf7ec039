"""The line of an answer that made a gradient wrong, in words."""

from __future__ import annotations

from autograder.locale.translations import in_english, translatable, translated
from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.verdict_types import Harm, NamedLine, Place
from autograder.view.text.harm_sentences import harmed_tensor

_OVERWRITES = translatable("line {line}: {text} writes into the memory of {tensor}, which {node} keeps for backward")


def describe(harm: Harm | None) -> str:
    """Returns the write that harmed a saved tensor, and what the operation that saved it keeps; "" for none."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[0]
    told = translated(_OVERWRITES, line=place.line, text=place.text, tensor=harmed_tensor(harm), node=harm.saved_by)
    # What to write instead would be the answer.
    kept = words_on_node(harm.saved_by, advice=False) if harm.edge is not None else ""
    return told + translated(" ({parts})", parts=kept) if kept else told


def unrecorded_line(harm: Harm | None, missing: Place | None) -> NamedLine | None:
    """Returns the line of a write that the history does not tell of; None where a write harmed a saved tensor, or there is none.

    Args:
        harm: the first harm of the run, if any.
        missing: where such a write is; whether it is the reason, the reader has to judge.
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
        # A node of the check's own, which starts backward in what came back, stands at no line.
        missing = place if harm.edge is None and not harm.saved_at.text else None
    told = in_english(
        "changes values whose history stays as it was: autograd does not know where the new ones come from"
    )
    return NamedLine(missing, told, "unseen") if missing else None
