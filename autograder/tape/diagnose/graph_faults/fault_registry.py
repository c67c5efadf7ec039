"""All kinds of graph fault, in the order in which they are reported."""

from __future__ import annotations

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults import (
    cleared_gradient,
    foreign_parameters,
    freed_graph,
    graph_cut,
    lost_leaf,
    missing_gradient,
    no_recording,
    spent_gradient,
)
from autograder.tape.recording.verdict_types import GraphFault, told_of_line

# These ask what no backward ever reached, which is not known of a long run of which only a part was recorded.
OF_WHOLE_RUNS = (foreign_parameters,)
KINDS = (
    lost_leaf,
    freed_graph,
    missing_gradient,
    no_recording,
    graph_cut,
    foreign_parameters,
    cleared_gradient,
    spent_gradient,
)


def find_graph_faults(evidence: Evidence) -> tuple[GraphFault, ...]:
    """Returns the graph faults of a run, the line that explains an error first; each line once."""
    found: dict = {}
    for kind in KINDS:
        if evidence.excerpt is not None and kind in OF_WHOLE_RUNS:
            continue
        for fault in kind.find(evidence):
            found.setdefault(fault.place, fault)
    return tuple(found.values())


def note_of(fault: GraphFault, file: str) -> str:
    """Returns a graph fault as a note; `file` is the program's own."""
    return told_of_line(fault.place, file, f"{fault.sentence} {fault.change}")
