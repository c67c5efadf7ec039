"""A modification of a tensor with a graph that autograd did not record, so that the graph does not match the computation."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, alias
from autograder.tape.recording.verdict_types import Harm, told_of_line


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the unrecorded modifications whose values were used, if finite differences show that they change a gradient."""
    state, effect = evidence.state, evidence.untracked_effect
    for suspect in effect.suspects if effect.wrong else ():
        write, tracked = suspect.write, suspect.tracked
        name, version = state.name_of(tracked) or "a tensor with history", tracked.counter.version
        yield Harm(name, (write.place,), alias([write], name), suspect.used_at, suspect.used_by, version, version, True)


def unrecorded_write_notes(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each line with an unrecorded modification whose values were used, even if no gradient is wrong."""
    notes = {}
    effect = evidence.untracked_effect
    for suspect in effect.suspects:
        write, name = suspect.write, evidence.state.name_of(suspect.tracked) or in_english("a tensor with history")
        told = in_english(
            "it modifies {name}, and autograd does not record it ({operation}): the graph does not match the "
            "computation.",
            name=name, operation=write.operation,
        )  # fmt: skip
        through = alias([write], name)
        # The gradients are right for the new values, which the author may have meant for the alias only. If the alias
        # has no name, assume that the modification is intended.
        if through and through.isidentifier() and not effect.wrong:
            told = in_english(
                "it writes through {alias} into {name}, which has the same memory: the loss was computed with the new "
                "values. To keep the values of {name}, make {alias} a copy: `.clone()`, or `.copy()` in NumPy.",
                alias=through, name=name,
            )  # fmt: skip
        notes[write.place] = told_of_line(write.place, evidence.file, told)
    yield from notes.values()


UNRECORDED_WRITE = HarmKind(
    name="unrecorded write",
    sentence="A tensor with history was overwritten and autograd did not record it: the gradient belongs to other values.",
    outcomes=("silently-wrong",),
    find=find,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        h = w * 2
        with torch.no_grad():
            h.mul_(3)  # writes
        (h * h).sum().backward()  # saves
        """,
    ),
)
