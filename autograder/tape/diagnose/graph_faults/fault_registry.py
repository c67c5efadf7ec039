"""All kinds of graph fault, in the order of the report."""

from __future__ import annotations

from msgspec.structs import replace

from autograder.locale.translations import counted_in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults import freed_graph, graph_cut, lost_leaf, refused_tensor, unused_target
from autograder.tape.diagnose.graph_faults.lost_leaf import MISSING
from autograder.tape.diagnose.graph_faults.mode_faults import LEFT_ON, NOT_RECORDED, STALE_CAST
from autograder.tape.diagnose.graph_faults.optimizer_faults import (
    CLEARED,
    FOREIGN,
    NO_EFFECT,
    SPENT,
    UNHELD,
    WITHOUT_A_LOSS,
)
from autograder.tape.recording.verdict_types import Excerpt, GraphFault, told_of_line

KINDS = (
    lost_leaf, freed_graph, MISSING, LEFT_ON, NOT_RECORDED, unused_target, refused_tensor, graph_cut, STALE_CAST, FOREIGN,
    UNHELD, WITHOUT_A_LOSS, CLEARED, NO_EFFECT, SPENT,
)  # fmt: skip


def find_graph_faults(evidence: Evidence) -> tuple[GraphFault, ...]:
    """Return the graph faults of a run, starting with the line that explains an error, one fault per line."""
    found: dict = {}
    for kind in KINDS:
        for fault in kind.find(evidence):
            found.setdefault(fault.place, _of_part(fault, evidence.excerpt))
    return tuple(found.values())


def _of_part(fault: GraphFault, excerpt: Excerpt | None) -> GraphFault:
    """Return a fault that needs the whole run with the number of the steps that ran, if only a part was recorded."""
    if excerpt is None or not any(one.is_untrained for one in fault.tensors):
        return fault
    told = counted_in_english(
        excerpt.calls, "{told} This is so in the one step that ran.", "{told} This is so in the {count} steps that ran.",
        told=fault.sentence,
    )  # fmt: skip
    return replace(fault, sentence=told)


def note_of(fault: GraphFault, file: str) -> str:
    """Return the note on a graph fault. `file` is the program's own file."""
    return told_of_line(fault.place, file, f"{fault.sentence} {fault.change}")
