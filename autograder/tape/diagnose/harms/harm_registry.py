"""All kinds of harm, in the order in which they are asked."""

from __future__ import annotations

from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.counted_write import COUNTED_WRITE
from autograder.tape.diagnose.harms.found_by_version import FOUND_BY_VERSION
from autograder.tape.diagnose.harms.harm_kind import HarmKind
from autograder.tape.diagnose.harms.kept_gradient import KEPT_GRADIENT
from autograder.tape.diagnose.harms.passed_gradient import PASSED_GRADIENT
from autograder.tape.diagnose.harms.recomputed_block import RECOMPUTED_BLOCK
from autograder.tape.diagnose.harms.shared_gradient import SHARED_GRADIENT
from autograder.tape.diagnose.harms.uncounted_write import UNCOUNTED_WRITE
from autograder.tape.diagnose.harms.unrecorded_write import UNRECORDED_WRITE
from autograder.tape.diagnose.harms.write_during_backward import WRITE_DURING_BACKWARD
from autograder.tape.recording.verdict_types import Harm

# The kinds of one row are all asked, and their harms listed in this order; a row is asked only where those above found nothing.
# Further down stand kinds that see less of the program, and could blame a line that did nothing wrong.
HARM_KINDS: tuple[tuple[HarmKind, ...], ...] = (
    (COUNTED_WRITE, UNCOUNTED_WRITE, UNRECORDED_WRITE),
    (FOUND_BY_VERSION, WRITE_DURING_BACKWARD),
    (PASSED_GRADIENT, SHARED_GRADIENT, RECOMPUTED_BLOCK),
    (KEPT_GRADIENT,),
)


def find_harms(evidence: Evidence) -> tuple[Harm, ...]:
    """Returns the writes that explain the outcome, () where it is no fault of a write; what backward refused comes first."""
    for row in HARM_KINDS:
        kinds = [kind for kind in row if evidence.outcome in kind.outcomes]
        if found := [_labelled(harm, kind) for kind in kinds for harm in kind.find(evidence)]:
            return tuple(dict.fromkeys(found))
    return ()


def _labelled(harm: Harm, kind: HarmKind) -> Harm:
    return structs.replace(harm, kind=kind.name, explanation=kind.sentence)
