"""All kinds of graph fault, in the order of the report."""

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
    refused_tensor,
    spent_gradient,
    unused_target,
)
from autograder.tape.diagnose.graph_faults.optimizer_faults import LEFT_ON, STALE_CAST, UNHELD, WITHOUT_A_LOSS
from autograder.tape.recording.verdict_types import GraphFault, told_of_line

# These kinds need the set of tensors that no backward reached, which is unknown if only a part of a run was recorded.
OF_WHOLE_RUNS = (foreign_parameters, WITHOUT_A_LOSS, UNHELD)
KINDS = (
    lost_leaf,
    freed_graph,
    missing_gradient,
    no_recording,
    unused_target,
    refused_tensor,
    graph_cut,
    STALE_CAST,
    foreign_parameters,
    UNHELD,
    WITHOUT_A_LOSS,
    cleared_gradient,
    LEFT_ON,
    spent_gradient,
)


def find_graph_faults(evidence: Evidence) -> tuple[GraphFault, ...]:
    """Return the graph faults of a run, starting with the line that explains an error, one fault per line."""
    found: dict = {}
    for kind in KINDS:
        if evidence.excerpt is not None and kind in OF_WHOLE_RUNS:
            continue
        for fault in kind.find(evidence):
            found.setdefault(fault.place, fault)
    return tuple(found.values())


def note_of(fault: GraphFault, file: str) -> str:
    """Return the note on a graph fault. `file` is the program's own file."""
    return told_of_line(fault.place, file, f"{fault.sentence} {fault.change}")
