"""All kinds of harm, in the order of the search."""

from __future__ import annotations

from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.counted_write import COUNTED_WRITE
from autograder.tape.diagnose.harms.during_backward import RECOMPUTED_BLOCK, WRITE_DURING_BACKWARD
from autograder.tape.diagnose.harms.found_by_version import FOUND_BY_VERSION
from autograder.tape.diagnose.harms.gradient_buffers import KEPT_GRADIENT, PASSED_GRADIENT, SHARED_GRADIENT
from autograder.tape.diagnose.harms.harm_kind import HarmKind
from autograder.tape.diagnose.harms.uncounted_write import UNCOUNTED_WRITE
from autograder.tape.diagnose.harms.unrecorded_write import UNRECORDED_WRITE
from autograder.tape.recording.verdict_types import Harm

# All kinds of a row are searched, and their harms are listed in this order; a row is searched only if the rows above
# found no harm. Kinds with less information, which could blame an innocent line, are in lower rows.
HARM_KINDS: tuple[tuple[HarmKind, ...], ...] = (
    (COUNTED_WRITE, UNCOUNTED_WRITE, UNRECORDED_WRITE),
    (FOUND_BY_VERSION, WRITE_DURING_BACKWARD),
    (PASSED_GRADIENT, SHARED_GRADIENT, RECOMPUTED_BLOCK),
    (KEPT_GRADIENT,),
)


def find_harms(evidence: Evidence) -> tuple[Harm, ...]:
    """Return the modifications that explain the outcome, starting with the cause of an error, or () if no modification explains it."""
    for row in HARM_KINDS:
        kinds = [kind for kind in row if evidence.outcome in kind.outcomes]
        if found := [_labelled(harm, kind) for kind in kinds for harm in kind.find(evidence)]:
            return tuple(dict.fromkeys(found))
    return ()


def _labelled(harm: Harm, kind: HarmKind) -> Harm:
    return structs.replace(harm, kind=kind.name, explanation=kind.sentence)
